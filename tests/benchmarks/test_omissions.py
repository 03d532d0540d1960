"""Parts left out of the shallow decoder: the same audio for one voice, another for a first part."""

import pytest
import torch

from kokoro_nb.benchmarks import omissions
from kokoro_nb.benchmarks.omissions import DISTANCE, FROM_HAR, ONE_VOICE, WHOLE, begun
from kokoro_nb.benchmarks.subjects import decoder_inputs
from kokoro_nb.errors import InputError

LENGTH, FIRST = 0.3, (0.1, 0.05)
PART = "first 0.1 s, 0.05 s ahead"


@pytest.fixture(scope="module")
def measured(shallow, tmp_path_factory):
    given = {"rounds": 1, "first": [FIRST, (0.3, 0.0)], "folder": tmp_path_factory.mktemp("artefacts")}
    rows, skipped = omissions.measure(shallow, LENGTH, ["eager", "onnxruntime-qnn"], **given)
    return {row.program.removeprefix("eager "): row for row in rows}, skipped


def test_every_program_that_fits_is_timed(measured):
    rows, _ = measured
    assert list(rows) == [WHOLE, FROM_HAR, ONE_VOICE, PART]
    assert rows[WHOLE].ratio.median == 1
    assert all(row.seconds.median > 0 for row in rows.values())


def test_what_is_not_here_is_skipped_with_its_reason(measured):
    _, skipped = measured
    assert skipped.keys() == {f"onnxruntime-qnn {program}" for program in (WHOLE, FROM_HAR, ONE_VOICE, PART)}
    assert all(reason.endswith(".") for reason in skipped.values())


def test_one_voice_sounds_the_same(measured):
    rows, _ = measured
    assert rows[WHOLE].error is None
    assert rows[FROM_HAR].error < 1e-4
    assert rows[ONE_VOICE].error < 1e-4


def test_a_first_part_differs_from_the_same_part_of_the_whole(measured):
    rows, _ = measured
    assert rows[PART].error is None
    assert rows[PART].as_dict()[DISTANCE] > 0.01
    assert DISTANCE not in rows[FROM_HAR].figures


def test_a_first_part_is_given_what_the_whole_is_given_there(shallow):
    whole = decoder_inputs(shallow, 12)
    part = begun(whole, 6)
    assert {name: tuple(each.shape) for name, each in part.items()} == {
        name: tuple(each.shape) for name, each in decoder_inputs(shallow, 6).items()
    }
    assert torch.equal(part["asr"], whole["asr"][..., :6])
    assert torch.equal(part["f0"], whole["f0"][:, :12])
    assert torch.equal(part["har"], whole["har"][..., : 6 * 120 + 1])
    assert torch.equal(part["s"], whole["s"])


def test_too_little_audio_is_one_sentence(shallow):
    with pytest.raises(InputError, match="cannot be timed"):
        omissions.measure(shallow, 0.01, ["onnxruntime"])


def test_an_unknown_backend_is_one_sentence(shallow):
    with pytest.raises(InputError, match="There is no backend 'nothing'"):
        omissions.measure(shallow, LENGTH, ["nothing"])


def test_what_has_nothing_to_be_compared_with_is_skipped(shallow, monkeypatch):
    export = omissions.export_to

    def without_the_source(name, exported, inputs, folder):
        return "It has no sine." if "harmonic_noise" in inputs else export(name, exported, inputs, folder)

    monkeypatch.setattr(omissions, "export_program", lambda module, inputs: module)
    monkeypatch.setattr(omissions, "export_to", without_the_source)
    rows, skipped = omissions.measure(shallow, LENGTH, ["eager"], rounds=1, first=())
    assert rows == ()
    assert skipped.pop(f"eager {WHOLE}") == "It has no sine."
    assert skipped == dict.fromkeys(
        [f"eager {FROM_HAR}", f"eager {ONE_VOICE}"], f"There is no '{WHOLE}' to compare it with."
    )
