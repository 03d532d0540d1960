from collections import Counter

import pytest
import torch

from kokoro_nb.backends.exported import export_program, snapshot
from kokoro_nb.models import noise, stages
from kokoro_nb.models.case import capture, complete_inputs
from kokoro_nb.models.padding import widened
from kokoro_nb.models.patches import EXPORT_PATCHES, patched
from kokoro_nb.models.speaking import CompleteStage
from kokoro_nb.traces.statistics import compare
from tests.refusals import refused


def _of_peak(found, expected):
    return float((found - expected).abs().max() / expected.abs().max())


def _double(inputs):
    return {name: value.double() if value.is_floating_point() else value for name, value in inputs.items()}


@pytest.fixture
def inputs(shallow_case):
    return complete_inputs(shallow_case)


@torch.no_grad()
def _original(model, case):
    """Return what the package's own model says in float64, and what its decoder was given."""
    given = {}
    hook = model.decoder.register_forward_pre_hook(lambda _module, args: given.update(zip("afns", args, strict=True)))
    try:
        with noise.replayed(case.noise()):
            audio, lasting = model.forward_with_tokens(case.tensors["ids"], case.tensors["ref_s"].double(), case.speed)
    finally:
        hook.remove()
    return audio[None], lasting[None], given


def test_in_float64_it_is_the_original_model(shallow, shallow_case, in_double):
    model = snapshot(shallow.model, double=True)
    expected, lasting, given = _original(model, shallow_case)
    inputs = _double(complete_inputs(shallow_case))
    with torch.no_grad(), patched(model, ("explicit_noise",)):
        audio, samples, found = CompleteStage(model, shallow_case.frames)(**inputs)
        assert torch.equal(found, lasting)
        assert samples.tolist() == [expected.shape[1]]
        assert _of_peak(audio, expected) < 1e-10  # 2e-15 was measured; atan2 may enlarge rounding of 1e-16
    decoder = {"asr": given["a"], "f0": given["f"], "n": given["n"], "s": given["s"]}
    with torch.no_grad(), patched(model, EXPORT_PATCHES):
        audio, _, _ = CompleteStage(model, shallow_case.frames)(**inputs)
        expected = stages.DecoderStage(model.decoder)(**decoder, harmonic_noise=inputs["harmonic_noise"])
        assert _of_peak(audio, expected) < 1e-6


@pytest.mark.parametrize("exact", [False, True])
def test_a_text_that_is_too_long_is_cut_and_its_length_says_so(shallow, shallow_case, inputs, exact):
    frames = shallow_case.frames - 10
    given = {**inputs, "harmonic_noise": inputs["harmonic_noise"][:, : 600 * frames]}
    with torch.no_grad(), patched(shallow.model, ("explicit_noise",)):
        audio, samples, _ = CompleteStage(shallow.model, frames, exact)(**given)
    assert audio.shape == (1, 600 * frames)
    assert samples.tolist() == [600 * (frames + 10)]


def test_a_stage_of_one_frame_is_refused(shallow):
    refused("give a whole number above 1", CompleteStage, shallow.model, 1)


def test_the_exported_graph_has_no_packed_sequence_and_asks_no_value(shallow, inputs, shallow_case):
    with torch.no_grad(), patched(shallow.model, EXPORT_PATCHES):
        exported = export_program(CompleteStage(shallow.model, shallow_case.frames), inputs)
    assert exported.outputs == ("audio", "audio_length_samples", "pred_dur")
    kinds = Counter(str(node.target) for node in exported.program.graph.nodes if node.op == "call_function")
    assert kinds["aten.lstm.input"] == 4  # the text encoder, the durations', theirs on top, and over frames
    forbidden = ("pack", "repeat_interleave", ".item", "_local_scalar", "nonzero", "index_put", "gather", "rand")
    assert [kind for kind in kinds if any(word in kind for word in forbidden)] == []


LIMIT = 1e-9  # of the peak, in float64


def _wide(case, tokens, frames):
    """Return the inputs of an utterance with room for so many tokens and frames, noise going on behind its end."""
    given = complete_inputs(case)
    text = widened({name: given[name] for name in ("ids", "attention_mask")}, tokens)
    noise = torch.randn(1, 600 * frames, 9, generator=torch.Generator().manual_seed(1))
    noise[:, : given["harmonic_noise"].shape[1]] = given["harmonic_noise"]
    return {**given, **text, "harmonic_noise": noise}


@pytest.fixture(scope="module")
def spoken(shallow):
    return capture(shallow, "Hi there.", g2p="espeak")


@torch.no_grad()
def _answers(shallow, case, tokens, frames):
    """Return what the model says without padding, and in a buffer: told the length, and not.

    In float64: in float32 the rounding of the pitch is enough for atan2 to turn phases round.
    """
    model, wide = snapshot(shallow.model, double=True), _double(_wide(case, tokens, frames))
    with patched(model, EXPORT_PATCHES):
        alone = CompleteStage(model, case.frames)(**_double(complete_inputs(case)))
        return alone, CompleteStage(model, frames, exact=True)(**wide), CompleteStage(model, frames)(**wide)


@pytest.mark.parametrize(("more_tokens", "more_frames"), [(0, 0), (1, 0), (0, 1), (20, 17)])
def test_in_any_buffer_it_says_what_it_says_without(shallow, spoken, in_double, more_tokens, more_frames):
    tokens = spoken.tensors["ids"].shape[1]
    alone, exact, naive = _answers(shallow, spoken, tokens + more_tokens, spoken.frames + more_frames)
    samples = alone[0].shape[1]
    assert exact[1].tolist() == alone[1].tolist() == [samples]
    assert torch.equal(exact[2][:, :tokens], alone[2])
    assert not exact[2][:, tokens:].any()
    assert compare(alone[0], exact[0][:, :samples]).of_peak <= LIMIT
    assert not exact[0][:, samples:].any()
    if more_tokens and more_frames:  # the control
        assert compare(alone[0], naive[0][:, :samples]).of_peak > 0.1
