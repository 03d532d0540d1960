import pytest
import torch
from torch import nn

from kokoro_nb.backends.exported import export_program
from kokoro_nb.errors import InputError
from kokoro_nb.listening.phrases import phrases
from kokoro_nb.listening.spectrum import log_spectral_distance
from kokoro_nb.listening.speech_checks import speech_checks
from kokoro_nb.models import stages
from kokoro_nb.models.case import capture
from kokoro_nb.models.fixed_norms import FixedInstanceNorm1d, NormStatistics, fixed_norms, norm_statistics
from kokoro_nb.models.kokoro import load_model
from kokoro_nb.models.patches import EXPORT_PATCHES, patched
from kokoro_nb.models.static_buffers import part_of

FRAMES, FIRST, AHEAD = 30, 10, 10


@pytest.fixture(scope="module")
def stage(shallow):
    return stages.FromHarStage(shallow.model.decoder)


@pytest.fixture(scope="module")
def inputs(shallow, shallow_case):
    with patched(shallow.model, EXPORT_PATCHES):
        return stages.from_har_inputs(shallow.model.decoder, shallow_case.decoder_inputs(FRAMES))


def _audio(stage, inputs):
    with torch.no_grad():
        return stage(**inputs)[0]


def _apart(value, expected):
    return float((value - expected).abs().max() / expected.abs().max())


def test_with_its_own_statistics_the_utterance_is_what_it_was(stage, inputs):
    expected, own = _audio(stage, inputs), norm_statistics(stage, [inputs])
    with fixed_norms(stage, own):
        assert _apart(_audio(stage, inputs), expected) < 1e-4
    assert torch.equal(_audio(stage, inputs), expected), "all is as it was"


def test_with_those_of_another_it_is_not(stage, inputs):
    louder = norm_statistics(stage, [{**inputs, "asr": 3 * inputs["asr"]}])
    with fixed_norms(stage, louder):
        assert _apart(_audio(stage, inputs), _audio(stage, inputs)) == 0
        changed = _audio(stage, inputs)
    assert _apart(changed, _audio(stage, inputs)) > 0.01


def test_a_part_alone_is_the_samples_of_the_whole_only_if_norms_are_fixed(stage, inputs):
    samples, begun = 600 * FIRST, part_of(inputs, 0, FIRST + AHEAD)
    as_it_is = _apart(_audio(stage, begun)[:samples], _audio(stage, inputs)[:samples])
    with fixed_norms(stage, norm_statistics(stage, [inputs])):
        whole = _audio(stage, inputs)
        assert _apart(_audio(stage, begun)[:samples], whole[:samples]) < 1e-5
        short = part_of(inputs, 0, FIRST + 1)
        assert _apart(_audio(stage, short)[:samples], whole[:samples]) > 1e-4, "the control: no frames ahead"
    assert as_it_is > 0.01


def test_statistics_are_of_all_frames_of_all_utterances():
    norm, draw = nn.Sequential(nn.InstanceNorm1d(3)), torch.Generator().manual_seed(0)
    short, long = torch.randn(1, 3, 5, generator=draw), 2 + torch.randn(1, 3, 50, generator=draw)
    found, both = norm_statistics(norm, [{"input": short}, {"input": long}]), torch.cat([short, long], -1)[0]
    torch.testing.assert_close(found.mean["0"], both.mean(-1))
    torch.testing.assert_close(found.variance["0"], both.var(-1, correction=0))


@pytest.mark.parametrize("affine", [False, True])
def test_it_is_the_norm_s_own_sum(affine):
    norm = nn.Sequential(nn.InstanceNorm1d(3, affine=affine))
    if affine:
        nn.init.normal_(norm[0].weight)
        nn.init.normal_(norm[0].bias)
    x = 5 + torch.randn(1, 3, 40, generator=torch.Generator().manual_seed(1))
    expected = norm(x)
    with fixed_norms(norm, norm_statistics(norm, [{"input": x}])):
        assert isinstance(norm[0], FixedInstanceNorm1d)
        torch.testing.assert_close(norm(x), expected, rtol=0, atol=1e-5)
    assert type(norm[0]) is nn.InstanceNorm1d
    assert not list(norm.buffers())


def test_an_export_has_them_as_constants(stage, inputs):
    with patched(stage.decoder, EXPORT_PATCHES), fixed_norms(stage, norm_statistics(stage, [inputs])):
        exported = export_program(stage, inputs)
        expected = _audio(stage, inputs)
    operators = {operator.op for operator in exported.specification.operators}
    assert not {name for name in operators if "mean" in name or "var" in name or "norm" in name}
    assert _apart(exported.program.module()(*inputs.values())[0], expected) < 1e-4


def test_what_has_no_norm_or_other_norms_is_refused(stage, inputs):
    with pytest.raises(InputError, match="No instance norm was run"):
        norm_statistics(nn.Linear(2, 2), [{"input": torch.zeros(1, 2)}])
    with pytest.raises(InputError, match="No instance norm was run"):
        norm_statistics(stage, [])
    with (
        pytest.raises(InputError, match="has no statistics of 3 channels; record them"),
        fixed_norms(nn.Sequential(nn.InstanceNorm1d(3)), NormStatistics({"0": torch.zeros(2)}, {"0": torch.ones(2)})),
    ):
        pass


def test_the_voice_is_heard_as_it_was():
    """The bundled voice with the statistics of other sentences: what is heard is within the limits of hearing."""
    mini = load_model("mini")
    said = [capture(mini, text, g2p="espeak") for text in phrases(4)]
    with patched(mini.model, EXPORT_PATCHES):
        utterances = [stages.from_har_inputs(mini.model.decoder, case.decoder_inputs(case.frames)) for case in said]
    stage = stages.FromHarStage(mini.model.decoder)
    expected = _audio(stage, utterances[0]).numpy()
    with fixed_norms(stage, norm_statistics(stage, utterances[1:])):
        found = _audio(stage, utterances[0]).numpy()
    checks = [check for check in speech_checks(expected, found, 24_000) if check.verdict != "unknown"]
    assert len(checks) >= 6
    assert {check.name for check in checks if check.verdict == "fail"} == set()
    assert 0.1 < log_spectral_distance(expected, found) < 3.0  # measured 2.2 to 2.7 over twenty sentences
