"""The pipeline step by step: what a step does wrong by itself, and what it only hands on; and one row of the check."""

import numpy as np
import pytest
import torch
from torch import nn

from kokoro_nb.backends.base import Failure
from kokoro_nb.backends.eager import Eager
from kokoro_nb.models.patches import patched
from kokoro_nb.studies import validate_steps as module
from kokoro_nb.studies.validate_steps import StepResult, first_wrong, follow, walk, with_floor
from kokoro_nb.traces.statistics import compare
from tests.refusals import refused

FRAMES = 8  # the first of some 70: the alignment cuts the rest


@pytest.fixture(autouse=True)
def model(narrow):
    with patched(narrow.model) as model:
        yield model


@pytest.fixture(scope="module")
def exact(narrow, narrow_case):
    with patched(narrow.model):
        return walk(narrow.model, narrow_case, "eager-float64", FRAMES)


@pytest.mark.parametrize("fault", ["zeroed", "a bin turned", "another sign", "one NaN"])
def test_a_wrong_phase_is_wrong_by_itself(narrow, exact, monkeypatch, fault):
    def wrong(phase):
        if fault == "zeroed":
            return np.zeros_like(phase)
        if fault == "another sign":
            return -phase
        turned = phase.copy()
        loudest = np.unravel_index(np.argmax(exact.values["har_magnitude"]), phase.shape)
        turned[loudest] += np.nan if fault == "one NaN" else 0.01
        return turned

    real = module.outputs_of
    made = lambda *given: {k: wrong(v) if k == "har_phase" else v for k, v in real(*given).items()}  # noqa: E731
    monkeypatch.setattr(module, "outputs_of", made)
    rows = follow(narrow.model, exact, "eager")
    assert first_wrong(rows).output == "har_phase"


def test_a_phase_counts_by_how_much_there_is_of_it():
    magnitude, turn = np.array([1.0, 1e-9]), 2 * np.pi
    same = compare(*(module.phasors(np.array(phase), magnitude) for phase in ([np.pi, 1.0], [-np.pi, 2.0])))
    assert same.of_peak < 1e-8  # a whole turn, and a bin that holds nothing
    assert compare(*(module.phasors(np.array([p, 0.0]), magnitude) for p in (0.5, 0.5 + turn))).of_peak < 1e-12
    assert compare(*(module.phasors(np.array([p, 0.0]), magnitude) for p in (0.0, 0.1))).of_peak == pytest.approx(
        0.0998, 1e-3
    )


class _Broken(Eager):
    """Cannot export what has the noise in its forward, and is right otherwise."""

    def export(self, made, inputs, folder=None):
        if "harmonic_noise" in inputs:
            return Failure("broken", "lowered", "NotImplementedError", "no such operator")
        return super().export(made, inputs, folder)


def test_a_step_that_falls_is_reported_and_the_rest_still_checked_by_itself(narrow, narrow_case, exact, monkeypatch):
    real = module.backend
    monkeypatch.setattr(module, "backend", lambda name: _Broken("broken") if name == "broken" else real(name))
    rows = {row.output: row for row in follow(narrow.model, exact, "broken")}
    assert first_wrong(list(rows.values())).output == "excitation"
    assert "no such operator" in rows["excitation"].as_dict()["own error (of peak)"]
    assert rows["har_magnitude"].own.of_peak < 1e-5
    assert rows["har_magnitude"].chained is None
    assert rows["har_magnitude"].reason == "no excitation"
    assert rows["x_post"].reason == "no har_magnitude, har_phase"
    assert rows["audio"].own.finite == 1
    refused("The step 'source' does not run on the reference", walk, narrow.model, narrow_case, "broken", FRAMES)


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
    assert module.valid_part("pred_dur", value, {"tokens": 2}).tolist() == [[1.0, 2.0]]
    assert module.valid_part("alignment", np.ones((1, 2, 3)), {"tokens": 1, "frames": 2}).shape == (1, 1, 2)


def test_it_is_removed_after_an_error():
    layer = nn.Conv1d(2, 3, 1)
    before = layer.bias.detach().clone()

    with pytest.raises(RuntimeError, match=r"^1000000000\.0$"), module.planted(layer, "bias", 2, 1e9):
        raise RuntimeError(layer.bias[2].item())
    assert torch.equal(layer.bias, before)


@pytest.mark.parametrize(("name", "channel", "match"), [("nothing", 0, "no parameter"), ("bias", 3, "no channel 3")])
def test_what_a_module_does_not_have_is_refused(name, channel, match):
    refused(match, module.planted(nn.Conv1d(2, 3, 1), name, channel).__enter__)
