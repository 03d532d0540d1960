from types import SimpleNamespace

import pytest

from kokoro_nb.backends.base import Failure
from kokoro_nb.errors import InputError
from kokoro_nb.studies.padding import padded_runtime
from kokoro_nb.studies.padding.padded_decoder import KINDS, decoder_in_buffers
from kokoro_nb.studies.padding.padded_runtime import on_runtime
from kokoro_nb.studies.padding.padded_text import text_in_buffer


def test_padding_leaks_unless_the_length_is_known(narrow, narrow_case):
    kind = KINDS[-1]
    found = decoder_in_buffers(narrow.model, narrow_case, 6, [12], kinds=[kind])

    run = found.run(kind, 12)
    assert run.plain.shape == run.naive.shape == run.exact.shape == (3600,)
    assert run.from_har.of_peak <= 1e-5
    assert run.source.of_peak <= max(1e-5, run.floor.of_peak) <= 1e-3
    assert run.leaking.of_peak > 0.1
    (row,) = found.rows()
    assert row["exact: amplitude ratio"] == pytest.approx(
        1, abs=0.1
    )  # atan2 may have made another waveform of rounding
    assert row["exact: error (of peak)"] == run.whole.of_peak < run.leaking.of_peak
    assert row["naive: correlation"] == run.leaking.correlation < 0.999


def test_with_the_length_a_runtime_computes_what_it_computes_without_padding(narrow, narrow_case):
    found = on_runtime(narrow.model, narrow_case, "eager", 6, 12, rounds=1)
    assert found.errors["plain"] == 0
    assert found.errors["exact"] <= 1e-5 < found.errors["naive"]
    assert found.cost.rounds == 1
    assert found.as_dict()["naive: error (of peak)"] == found.errors["naive"]


def test_an_export_that_fails_is_a_failure_and_no_absent_runtime(narrow, narrow_case, monkeypatch):
    failure = Failure("broken", "lowered", "RuntimeError", "aten.sin is not implemented")
    broken = SimpleNamespace(available=lambda: None)
    monkeypatch.setattr(padded_runtime, "backend", lambda name: broken)
    fallen = SimpleNamespace(outputs=None, artifact=None, failure=failure, unexecuted="")
    monkeypatch.setattr(padded_runtime, "climb", lambda *_: fallen)
    found = on_runtime(narrow.model, narrow_case, "broken", 6, 12, rounds=1)
    assert found.failure is failure
    assert "failed when lowered" in found.as_dict()["not measured"]
    broken.available = lambda: "it is not installed"
    found = on_runtime(narrow.model, narrow_case, "broken", 6, 12, rounds=1)
    assert (found.failure, found.reason) == (None, "it is not installed")


def test_given_the_length_the_text_is_what_it_is_without_padding(narrow, narrow_case):
    found = text_in_buffer(narrow.model, narrow_case, 32)
    assert found.durations
    assert found.worst == max(found.d, found.t_en) <= 1e-5


def test_without_the_length_the_padding_is_read(narrow, narrow_case):
    found = text_in_buffer(narrow.model, narrow_case, 32, given_length=False)
    assert found.d > 1e-3
    assert found.as_dict()["program"] == "not given the length"
    assert found.as_dict()["d (of peak)"] == found.d


def test_a_text_without_room_and_an_unknown_noise_are_refused(narrow, narrow_case):
    with pytest.raises(InputError, match="no noise 'pink'; use one of gaussian, zero, tonal, signal"):
        decoder_in_buffers(narrow.model, narrow_case, 6, [12], kinds=["pink"])
    with pytest.raises(InputError, match="give more room"):
        text_in_buffer(narrow.model, narrow_case, 3)
