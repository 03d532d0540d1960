"""One row of the check of the pipeline."""

import numpy as np
import pytest

from kokoro_nb.backends.base import Failure
from kokoro_nb.studies.validate_steps.step_rows import StepResult, first_wrong, with_floor
from kokoro_nb.studies.validate_steps.validation import valid_part
from kokoro_nb.traces.statistics import compare


def test_a_limit_gives_way_to_the_floor():
    def step(error):
        return StepResult("source", "excitation", own=compare(np.ones(2), np.array([1.0, 1.0 + error])))

    assert first_wrong([step(2e-3)]).output == "excitation"
    (over,) = with_floor([step(2e-3)], [step(1e-3)])
    assert over.holds(1e-3)
    assert "own floor (of peak)" in over.as_dict()
    (over,) = with_floor([step(5e-3)], [step(1e-3)])
    assert not over.holds(1e-3)
    assert over.over_floor == over.as_dict()["own over floor"] == pytest.approx(5)
    assert with_floor([step(5e-3)], [step(0.0)])[0].over_floor is None
    assert not step(float("nan")).holds(1e9)


def test_what_fell_or_was_not_run_does_not_hold():
    failure = Failure("x", "lowered", "NotImplementedError", "no such operator")
    assert not StepResult("source", "excitation", failure=failure).holds(1e9)
    assert "no such operator" in StepResult("source", "excitation", failure=failure).as_dict()["own error (of peak)"]
    assert first_wrong([]) is None


def test_the_valid_part_of_each_axis():
    value = np.array([[1.0, 2.0, 0.0, -3.0]])
    assert valid_part("pred_dur", value, {"tokens": 2}).tolist() == [[1.0, 2.0]]
    assert valid_part("alignment", np.ones((1, 2, 3)), {"tokens": 1, "frames": 2}).shape == (1, 1, 2)
