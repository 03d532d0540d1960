import pytest
import torch

from kokoro_nb.backends import BACKENDS
from kokoro_nb.backends.exported import snapshot
from kokoro_nb.models.case import capture
from kokoro_nb.models.complete import CompleteStage, complete_inputs
from kokoro_nb.models.patches import EXPORT_PATCHES, patched
from kokoro_nb.models.static_buffers import widened
from kokoro_nb.studies.coreml_complete.complete_model import REFERENCE
from kokoro_nb.traces.parity import compare

OVER_TOKENS = ("ids", "attention_mask")
LIMIT = 1e-9  # of the peak, in float64


def _wide(case, tokens, frames):
    """Return the inputs of an utterance with room for so many tokens and frames, noise going on behind its end."""
    given = complete_inputs(case)
    text = widened({name: given[name] for name in OVER_TOKENS}, tokens)
    noise = torch.randn(1, 600 * frames, 9, generator=torch.Generator().manual_seed(1))
    noise[:, : given["harmonic_noise"].shape[1]] = given["harmonic_noise"]
    return {**given, **text, "harmonic_noise": noise}


@pytest.fixture(scope="module")
def spoken(narrow):
    return capture(narrow, "Hi there.", g2p="espeak")


def _double(inputs):
    return {name: value.double() if value.is_floating_point() else value for name, value in inputs.items()}


@torch.no_grad()
def _answers(narrow, case, tokens, frames):
    """Return what the model says without padding, and in a buffer: told the length, and not.

    In float64: in float32 the rounding of the pitch is enough for atan2 to turn phases round.
    """
    model, wide = snapshot(narrow.model, double=True), _double(_wide(case, tokens, frames))
    with patched(model, EXPORT_PATCHES):
        alone = CompleteStage(model, case.frames)(**_double(complete_inputs(case)))
        return alone, CompleteStage(model, frames, exact=True)(**wide), CompleteStage(model, frames)(**wide)


@pytest.mark.parametrize(("more_tokens", "more_frames"), [(0, 0), (1, 0), (0, 1), (20, 17), (40, 64)])
def test_in_any_buffer_it_says_what_it_says_without(narrow, spoken, in_double, more_tokens, more_frames):
    tokens = spoken.tensors["ids"].shape[1]
    alone, exact, naive = _answers(narrow, spoken, tokens + more_tokens, spoken.frames + more_frames)
    samples = alone[0].shape[1]
    assert exact[1].tolist() == alone[1].tolist() == [samples]
    assert torch.equal(exact[2][:, :tokens], alone[2])
    assert not exact[2][:, tokens:].any()
    assert compare(alone[0], exact[0][:, :samples]).of_peak <= LIMIT
    assert not exact[0][:, samples:].any()
    if more_tokens and more_frames:  # the control
        assert compare(alone[0], naive[0][:, :samples]).of_peak > 0.1


@pytest.mark.slow
@pytest.mark.parametrize("name", ["onnxruntime", "coreml-reference-float32"])
def test_a_runtime_takes_it(name, narrow, spoken, tmp_path):
    backend = REFERENCE if name == REFERENCE.name else BACKENDS[name]  # coremltools takes LSTMs from a trace alone
    if backend.executes():
        pytest.skip(backend.executes())
    tokens, frames = spoken.tensors["ids"].shape[1] + 6, spoken.frames + 6
    given = _wide(spoken, tokens, frames)
    with torch.no_grad(), patched(narrow.model, EXPORT_PATCHES):
        stage = CompleteStage(narrow.model, frames, exact=True)
        expected = stage(**given)
        made = backend.export(stage, given, tmp_path)
    found = backend.load(made).run(given)
    assert found["audio_length_samples"].tolist() == expected[1].tolist()
    assert found["pred_dur"].tolist() == expected[2].tolist()
    window = torch.hann_window(512)
    heard, right = (
        torch.stft(torch.as_tensor(x)[0], 512, window=window, return_complex=True).abs()
        for x in (found["audio"], expected[0])
    )
    assert compare(right, heard).snr_db > 15  # samples are not compared: atan2 turns rounding into them
