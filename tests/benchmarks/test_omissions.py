"""Parts left out of the shallow decoder: the same audio from har, and for one voice."""

import pytest

from kokoro_nb.benchmarks import omissions, subjects
from kokoro_nb.benchmarks.omissions import FROM_HAR, ONE_VOICE, WHOLE
from kokoro_nb.errors import InputError

LENGTH = 0.3


@pytest.fixture(scope="module")
def measured(shallow, tmp_path_factory):
    given = {"rounds": 1, "folder": tmp_path_factory.mktemp("artefacts")}
    rows, skipped = omissions.measure(shallow, LENGTH, ["eager", "onnxruntime-qnn"], **given)
    return {row.program.removeprefix("eager "): row for row in rows}, skipped


def test_every_program_that_fits_is_timed(measured):
    rows, _ = measured
    assert list(rows) == [WHOLE, FROM_HAR, ONE_VOICE]
    assert rows[WHOLE].ratio.median == 1
    assert all(row.seconds.median > 0 for row in rows.values())


def test_what_is_not_here_is_skipped_with_its_reason(measured):
    _, skipped = measured
    assert skipped.keys() == {f"onnxruntime-qnn {program}" for program in (WHOLE, FROM_HAR, ONE_VOICE)}
    assert all(reason.endswith(".") for reason in skipped.values())


def test_one_voice_sounds_the_same(measured):
    rows, _ = measured
    assert rows[WHOLE].error is None
    assert rows[FROM_HAR].error < 1e-4
    assert rows[ONE_VOICE].error < 1e-4


def test_too_little_audio_is_one_sentence(shallow):
    with pytest.raises(InputError, match="cannot be timed"):
        omissions.measure(shallow, 0.01, ["onnxruntime"])


def test_an_unknown_backend_is_one_sentence(shallow):
    with pytest.raises(InputError, match="There is no backend 'nothing'"):
        omissions.measure(shallow, LENGTH, ["nothing"])


def test_what_has_nothing_to_be_compared_with_is_skipped(shallow, monkeypatch):
    export = subjects.export_to

    def without_the_source(name, exported, inputs, folder):
        return "It has no sine." if "harmonic_noise" in inputs else export(name, exported, inputs, folder)

    monkeypatch.setattr(omissions, "export_program", lambda module, inputs: module)
    monkeypatch.setattr(subjects, "export_to", without_the_source)
    rows, skipped = omissions.measure(shallow, LENGTH, ["eager"], rounds=1)
    assert rows == ()
    assert skipped.pop(f"eager {WHOLE}") == "It has no sine."
    assert skipped == dict.fromkeys(
        [f"eager {FROM_HAR}", f"eager {ONE_VOICE}"], f"There is no '{WHOLE}' to compare it with."
    )
