import pytest
import torch

from kokoro_nb.models.patches import EXPORT_PATCHES, patched
from kokoro_nb.models.stages import ProsodyStage
from kokoro_nb.models.static_buffers import widened
from kokoro_nb.traces.parity import compare


def _features(model, frames):
    """Return features of tokens that last three frames each, as the alignment gives them, and a voice."""
    draw = torch.Generator().manual_seed(frames)
    d = torch.randn(1, model.predictor.shared.input_size, -(-frames // 3), generator=draw)
    return d.repeat_interleave(3, dim=2)[..., :frames], 0.3 * torch.randn(1, 256, generator=draw)


@torch.no_grad()
def _errors(model, frames, room):
    en, ref_s = _features(model, frames)
    expected = model.predictor.F0Ntrain(en, ref_s[:, 128:])
    wide = widened({"en": en}, room, fill=float("nan"))["en"]
    found = ProsodyStage(model)(wide, ref_s, torch.tensor([frames]))
    naive = model.predictor.F0Ntrain(widened({"en": en}, room)["en"], ref_s[:, 128:])
    assert not any(curve[:, 2 * frames :].any() for curve in found)
    exact, left = (
        [compare(a, b[:, : 2 * frames]).of_peak for a, b in zip(expected, curves, strict=True)]
        for curves in (found, naive)
    )
    return max(exact), max(left)


@pytest.mark.parametrize("patches", [(), EXPORT_PATCHES], ids=["no patch", "export patches"])
@pytest.mark.parametrize(("frames", "room"), [(3, 24), (24, 24), (24, 25), (24, 48)])
def test_pitch_and_energy_are_the_package_s_without_padding(narrow, frames, room, patches):
    with patched(narrow.model, patches):
        exact, left = _errors(narrow.model, frames, room)
    assert exact <= 1e-5
    if room > frames:  # the control: the same buffer without the length
        assert left > 1e-2
