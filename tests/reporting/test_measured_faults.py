"""Faults in measures and in results: each changes what it says, and leaves its argument and the limits."""

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest

from kokoro_nb.backends.base import Artifact, Failure
from kokoro_nb.reporting.measured_faults import (
    MEASURE_FAULTS,
    RESULT_FAULTS,
    changed_result,
    install,
    measured_calls,
    planted,
)

INFINITE = "infinity in one element"  # of an array


@dataclass(frozen=True)
class _Part:
    error: float
    limit: float


@dataclass(frozen=True)
class _Result:
    part: _Part | None
    count: int
    right: bool
    culprits: tuple[str, ...]
    file: Path
    failure: str | None = None
    unknown: tuple[str, ...] = ()
    levels: tuple[float, ...] = (1.0, 2.0)

    @property
    def twice(self):
        return 2 * self.count


def _result():
    return _Result(_Part(0.5, 1.0), 3, True, ("conv", "norm"), Path("a.json"))


@pytest.mark.parametrize("fault", list(MEASURE_FAULTS))
def test_each_fault_changes_what_is_measured_and_leaves_its_argument(fault):
    draw = np.random.default_rng(0)
    reference, candidate = draw.standard_normal((2, 3, 8)), draw.standard_normal((2, 3, 8))
    before = candidate.copy()
    changed = MEASURE_FAULTS[fault](reference, candidate)
    assert changed.shape != candidate.shape or not np.array_equal(changed, candidate)
    assert np.array_equal(candidate, before)


def test_an_artefact_becomes_a_failure():
    made = {"float32": Artifact("coreml", Path("model.mlpackage"), (), (), {}, False)}
    found = changed_result(made, "an export that fails")
    assert isinstance(found["float32"], Failure)
    assert isinstance(made["float32"], Artifact)


def test_one_element_of_an_array_is_infinite():
    sound = np.linspace(-1, 1, 6, dtype=np.float32)
    found = changed_result({"sound": sound, "ids": np.arange(3), "level": 0.5, "empty": sound[:0]}, INFINITE)
    assert np.isinf(found["sound"]).sum() == 1
    assert np.isfinite(sound).all()
    assert (found["ids"].tolist(), found["level"], found["empty"].size) == ([0, 1, 2], 0.5, 0)


@pytest.mark.parametrize("fault", [one for one in RESULT_FAULTS if one != INFINITE])
def test_each_fault_changes_a_result_and_leaves_its_argument(fault):
    result = _result()
    assert changed_result(result, fault) != result == _result()


def test_rows_are_graded():
    rising, falling = "each row eight times the last", "each row an eighth of the last"
    assert changed_result(_result(), rising) == replace(_result(), levels=(1.0, 16.0))
    assert changed_result([1.0] * 1000, rising)[-1] == 512
    assert changed_result({"a": _Part(1.0, 1.0), "b": _Part(2.0, 2.0)}, falling)["b"] == _Part(0.25, 2.0)


def test_what_each_fault_changes():
    def changed(fault):
        return changed_result({"one": _result()}, fault)["one"]

    assert changed("figures eight times as large").part == _Part(4.0, 1.0), "its limit stays"
    assert changed("counts off by one").twice == 8
    assert changed("counts off by one").right is True
    assert changed("yes for no").right is False
    assert changed("another's name").culprits == ("another conv", "another norm")
    assert changed("rows exchanged").culprits == ("norm", "conv")
    assert changed_result({"a": 1, "b": 2}, "rows exchanged") == {"a": 2, "b": 1}
    assert changed("the last row or file missing").culprits == ("conv",)
    assert changed("the last row or file missing").file == Path("missing")
    assert changed("something where nothing was").unknown == ("an operator",)
    assert changed_result([_result()], "nothing where something was") == []
    assert changed_result({"one": 1}, "nothing where something was") == {}
    assert changed("no result") is None
    assert changed("a failure").failure == "it failed"
    assert changed("an export that fails").failure.error == "RuntimeError"
    assert changed_result(_result(), "an export that fails").failure is not None, "the result itself, too"
    assert changed("figures that are NaN").part.error != changed("figures that are NaN").part.error
    assert changed("one name for all").culprits == ("the same", "the same")
    array = changed_result([np.ones(3)], "figures of other sign")[0]
    assert np.array_equal(array, -np.ones(3))


def test_what_is_no_plain_data_is_handed_on():
    held = object()
    assert changed_result([held, [held]], "figures eight times as large")[1][0] is held


def test_without_a_fault_the_wrappers_change_nothing():
    install()
    from kokoro_nb.traces.parity import compare

    before = measured_calls()
    assert compare(np.ones(3), np.ones(3)).max_error == 0
    with planted("eight times as loud"):
        assert compare(np.ones(3), np.ones(3)).max_error == 7
    assert compare(np.ones(3), np.ones(3)).max_error == 0
    assert measured_calls() == before + 3
