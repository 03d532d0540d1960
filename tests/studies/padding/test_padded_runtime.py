from types import SimpleNamespace

from kokoro_nb.backends.base import Failure
from kokoro_nb.studies.padding import padded_runtime
from kokoro_nb.studies.padding.padded_runtime import on_runtime


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
    monkeypatch.setattr(
        padded_runtime, "climb", lambda *_: SimpleNamespace(outputs=None, artifact=None, failure=failure, unexecuted="")
    )
    found = on_runtime(narrow.model, narrow_case, "broken", 6, 12, rounds=1)
    assert found.failure is failure
    assert "failed when lowered" in found.as_dict()["not measured"]
    broken.available = lambda: "it is not installed"
    found = on_runtime(narrow.model, narrow_case, "broken", 6, 12, rounds=1)
    assert (found.failure, found.reason) == (None, "it is not installed")
