"""The pipeline step by step: what a step does wrong by itself, and what it only hands on."""

import numpy as np
import pytest

from kokoro_nb.backends.base import Failure
from kokoro_nb.backends.eager import Eager
from kokoro_nb.errors import InputError
from kokoro_nb.models.patches import patched
from kokoro_nb.studies.validate_steps import validation as module
from kokoro_nb.studies.validate_steps.step_rows import first_wrong
from kokoro_nb.studies.validate_steps.validation import follow, phasors, walk
from kokoro_nb.traces.statistics import compare

FRAMES = 8  # the first of some 70: the alignment cuts the rest


@pytest.fixture(autouse=True)
def model(narrow):
    with patched(narrow.model) as model:
        yield model


@pytest.fixture(scope="module")
def exact(narrow, narrow_case):
    with patched(narrow.model):
        return walk(narrow.model, narrow_case, "eager-float64", FRAMES)


def test_some_steps_alone_have_no_chain(narrow, exact):
    rows = follow(narrow.model, exact, "eager", only=("source", "har", "generator"))
    assert [row.output for row in rows] == ["excitation", "har_magnitude", "har_phase", "x_pre", "x_post"]
    assert [row.reason for row in rows] == ["no f0", *["no excitation"] * 2, *["no x, s, har_magnitude, har_phase"] * 2]
    assert first_wrong(rows) is None
    with pytest.raises(InputError, match="There is no step 'noise'"):
        follow(narrow.model, exact, "eager", only=("noise",))


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
    rows = follow(narrow.model, exact, "eager", only=("har",))
    assert first_wrong(rows).output == "har_phase"


def test_a_phase_counts_by_how_much_there_is_of_it():
    magnitude, turn = np.array([1.0, 1e-9]), 2 * np.pi
    same = compare(*(phasors(np.array(phase), magnitude) for phase in ([np.pi, 1.0], [-np.pi, 2.0])))
    assert same.of_peak < 1e-8  # a whole turn, and a bin that holds nothing
    assert compare(*(phasors(np.array([p, 0.0]), magnitude) for p in (0.5, 0.5 + turn))).of_peak < 1e-12
    assert compare(*(phasors(np.array([p, 0.0]), magnitude) for p in (0.0, 0.1))).of_peak == pytest.approx(0.0998, 1e-3)


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
    with pytest.raises(InputError, match="The step 'source' does not run on the reference"):
        walk(narrow.model, narrow_case, "broken", FRAMES)
