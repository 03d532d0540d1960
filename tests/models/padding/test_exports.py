import pytest
import torch

from kokoro_nb.backends import BACKENDS
from kokoro_nb.models import model_cuts, stages
from kokoro_nb.models.padding import Valid, within
from kokoro_nb.models.patches import EXPORT_PATCHES, patched
from kokoro_nb.models.static_buffers import widened
from kokoro_nb.traces.statistics import compare
from tests.backends.small import present

RUNTIMES = ["onnxruntime", pytest.param("executorch-xnnpack", marks=pytest.mark.slow)]


@pytest.fixture
def prosody(shallow):
    draw = torch.Generator().manual_seed(0)
    en = torch.randn(1, shallow.model.predictor.shared.input_size, 4, generator=draw)
    given = {"en": en, "ref_s": 0.3 * torch.randn(1, 256, generator=draw)}
    return stages.ProsodyStage(shallow.model), given


def _run(name, module, inputs, folder):
    return BACKENDS[name].load(BACKENDS[name].export(module, inputs, folder)).run(inputs)


def _errors(name, folder, module, given, room):
    """Return the runtime's own error without padding, and with it, both against eager without padding."""
    valid = next(tensor.shape[2] for key, tensor in given.items() if key in ("en", "asr"))
    wide = {**widened(given, room), "length": torch.tensor([valid])}
    expected = _run("eager", module, given, folder)
    own, found = _run(name, module, given, folder), _run(name, module, wide, folder)
    errors = []
    for key, value in expected.items():
        assert not found[key][:, value.shape[1] :].any()
        errors.append((compare(value, own[key]).of_peak, compare(value, found[key][:, : value.shape[1]]).of_peak))
    return errors


@pytest.mark.parametrize("name", RUNTIMES)
def test_pitch_and_energy_come_out_of_a_runtime_as_without_padding(name, shallow, prosody, tmp_path):
    present(name)
    with torch.no_grad(), patched(shallow.model, EXPORT_PATCHES):
        for own, found in _errors(name, tmp_path, *prosody, room=6):
            assert found <= max(2 * own, 1e-5)  # the second: eager's own limit, where the runtime is bit for bit eager


class Durations(torch.nn.Module):
    """The predictor of durations alone, exact in a longer buffer."""

    output_names = ("pred_dur",)

    def __init__(self, predictor):
        super().__init__()
        self.lstm, self.duration_proj = predictor.lstm, predictor.duration_proj

    def forward(self, d, speed, length):
        with within(self, Valid(d.shape[1], length)) as valid:
            return model_cuts.durations(self, valid.zeroed(d, axis=1), speed, valid.outside(d.shape[1])[None])


@pytest.mark.parametrize("name", RUNTIMES)
def test_durations_come_out_of_a_runtime_identical(name, shallow, tmp_path):
    present(name)
    draw = torch.Generator().manual_seed(0)
    d = torch.randn(1, 6, shallow.model.predictor.lstm.input_size, generator=draw)
    stage, given = Durations(shallow.model.predictor), {"d": d, "speed": torch.ones(1)}
    programs = [
        BACKENDS[key].load(BACKENDS[key].export(stage, {**given, "length": torch.tensor([6])}, tmp_path))
        for key in (name, "eager")
    ]
    for length in (6, 4):
        found, expected = (program.run({**given, "length": torch.tensor([length])})["pred_dur"] for program in programs)
        assert (found == expected).all()
        assert (found[:, length:] == 0).all()
