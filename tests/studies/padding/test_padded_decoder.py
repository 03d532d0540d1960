from types import SimpleNamespace

import pytest

from kokoro_nb.backends.base import Failure
from kokoro_nb.errors import InputError
from kokoro_nb.studies.padding import padded_runtime
from kokoro_nb.studies.padding.padded_decoder import decoder_in_buffers
from kokoro_nb.studies.padding.padded_runtime import on_runtime
from kokoro_nb.studies.padding.padded_text import text_in_buffer


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


def test_a_text_without_room_and_an_unknown_noise_are_refused(narrow, narrow_case):
    with pytest.raises(InputError, match="no noise 'pink'; use one of gaussian, zero, tonal, signal"):
        decoder_in_buffers(narrow.model, narrow_case, 6, [12], kinds=["pink"])
    with pytest.raises(InputError, match="give more room"):
        text_in_buffer(narrow.model, narrow_case, 3)
