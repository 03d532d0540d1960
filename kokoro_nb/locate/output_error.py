"""How far the whole output is off, against a limit: derived from what rounding does to this very program.

The floor is PyTorch's own float32 against float64. A dtype of fewer bits is allowed as much more as its rounding is
coarser. Another order of summation may be further off without being wrong: then as much is allowed as roundings within
the bounds of the operators make of the output. Beyond 2^-4 of the peak, which leaves float16 4 of its 11 bits, rounding
is no excuse but the fault.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from kokoro_nb.backends.signature import BFLOAT16, epsilon
from kokoro_nb.findings import Verdict
from kokoro_nb.locate.local_error import LocalError, alike, parts
from kokoro_nb.locate.rounding_bound import nudged
from kokoro_nb.traces.statistics import relative_difference, share_of_peak
from kokoro_nb.traces.trace import Trace

SCATTER = 8.0  # how far a largest error may lie above its forecast: 3 bits
LOST = 2.0**-4  # an error of this share of the peak leaves 4 of 11 bits


@dataclass(frozen=True)
class OutputLimit:
    """What is allowed of an output's error, of its peak, and where that comes from."""

    value: float
    basis: str


Limits = Mapping[str, OutputLimit]  # of outputs by name


@dataclass(frozen=True)
class OutputError:
    """The output of a run that is furthest from what is right.

    Attributes
    ----------
    output : str
        Its name.
    of_peak : float
        Largest difference, of the peak of what is right; NaN as soon as one element is.
    finite : float
        Share of the elements that are finite among those that should be, 0 to 1.
    limit : float
        What is allowed of `of_peak`; NaN where none could be derived.
    basis : str
        Where the limit comes from.
    form : str
        In what shape or dtype it differs, ``shape (3, 6, 3) in place of (3, 6)``; empty if in neither.
    """

    output: str
    of_peak: float
    finite: float
    limit: float = float("nan")
    basis: str = ""
    form: str = ""

    @property
    def verdict(self) -> Verdict:
        """``pass`` within the limit, ``fail`` beyond it, not finite or of another form, ``unknown`` without a limit."""
        if self.finite < 1 or self.form:
            return "fail"
        if np.isnan(self.limit):
            return "unknown"
        return "pass" if self.of_peak <= self.limit else "fail"

    def __str__(self) -> str:
        if self.finite < 1:
            share = f"{100 * (1 - self.finite):.3g} % of '{self.output}'"
            return f"{share} is not finite where it should be, or finite where it should not be (allowed is none)"
        if np.isnan(self.of_peak):
            return f"'{self.output}' has {self.form}"
        limit = "" if np.isnan(self.limit) else f" (allowed are {self.limit:.3g} of the peak: {self.basis})"
        form = f", and has {self.form}" if self.form else ""
        return f"'{self.output}' is off by {share_of_peak(self.of_peak, 'its')}{limit}{form}"

    def as_dict(self) -> dict[str, Any]:
        """Return it as plain values, with units in the keys."""
        row: dict[str, Any] = {"output": self.output, "error (of peak)": self.of_peak, "finite (%)": 100 * self.finite}
        row |= {"limit (of peak)": self.limit, "limit from": self.basis}
        return row | {"shape or dtype": self.form, "verdict": self.verdict}


def worst_output(right: Mapping[str, Any], given: Mapping[str, Any], limits: Limits | None = None) -> OutputError:
    """Return the output that is furthest beyond its limit; one that is not finite is further than any other.

    Elements that are not finite in `right` are right where `given` has the same. An output of another shape is wrong as
    a whole.

    Parameters
    ----------
    right, given : mapping
        Array of each output by its name.
    limits : mapping, optional
        Limit of each; without it the output with the largest error of its peak is returned, and has no limit.
    """
    found = []
    for name, expected in right.items():
        expected, seen = parts(np.asarray(expected)), parts(np.asarray(given[name]))
        limit = limits[name] if limits else OutputLimit(float("nan"), "")
        if expected.shape != seen.shape:
            form = f"shape {seen.shape} in place of {expected.shape}"
            found.append(OutputError(name, float("nan"), 1.0, limit.value, limit.basis, form))
            continue
        lost = int((~alike(seen, expected)).sum())
        error = float("nan") if lost else relative_difference(seen, expected)
        share = 1 - lost / expected.size if lost else 1.0
        found.append(OutputError(name, error, share, limit.value, limit.basis))
    return sorted(found, key=_distance)[-1]


def _distance(one: OutputError) -> tuple[bool, bool, float, float]:
    beyond = one.of_peak / one.limit if one.limit else (np.inf if one.of_peak else 0.0)
    return bool(one.form), one.finite < 1, 1 - one.finite, one.of_peak if np.isnan(beyond) else beyond


CAPPED = "rounding may cost no more than 2^-4 of the peak, 4 of float16's 11 bits"


def output_error(
    reference: Trace,
    outputs: Mapping[str, np.ndarray],
    dtypes: Sequence[str],
    errors: Sequence[LocalError] = (),
    limit: float | None = None,
    typed: Mapping[str, str] | None = None,
) -> tuple[OutputError, Limits]:
    """Return how far the outputs of a run are off from float64, and the limit of each.

    Parameters
    ----------
    reference : Trace
        Of ``eager`` or ``eager-float64``, with its meaning.
    outputs : mapping
        What the runtime gave: array of each output by its name.
    dtypes : sequence of str
        In which the runtime gave results: the coarsest of the floats counts.
    errors : sequence of LocalError
        Of its operators, with their bounds.
    limit : float, optional
        What is allowed of every output, of its peak, in place of what is derived.
    typed : mapping, optional
        Dtype that each output has to have; without it any will do.
    """
    meaning = reference.meaning
    exact = meaning.run(reference.inputs, double=True)
    if limit is not None:
        limits: Limits = {name: OutputLimit(limit, "as requested") for name in exact}
        return _typed(worst_output(exact, outputs, limits), outputs, typed), limits
    single = meaning.run(reference.inputs) if reference.backend == "eager-float64" else reference.outputs
    own = _coarsest([operator.dtype for operator in meaning.operators])
    runtime = _coarsest(dtypes)
    limits = {name: _from_floor(exact[name], single[name], own, runtime) for name in exact}
    found = worst_output(exact, outputs, limits)
    if found.of_peak > found.limit and runtime <= np.finfo(np.float32).eps and errors:  # and not NaN
        limits = _carried(reference, exact, errors, limits)
        found = worst_output(exact, outputs, limits)
    if found.verdict == "fail" and float(np.max([runtime, own])) <= np.finfo(np.float32).eps:
        near = _near_pytorch(reference, single, runtime)
        if (theirs := worst_output(single, outputs, near)).verdict == "pass":
            found, limits = theirs, near
    return _typed(found, outputs, typed), limits


def _near_pytorch(reference: Trace, single: Mapping[str, Any], runtime: float) -> Limits:
    """Return the limits beside PyTorch's own results, which may be far from float64: where a tie is rounded away."""
    inputs = {name: np.asarray(one) for name, one in reference.inputs.items()}
    moved = {name: np.asarray(one).astype(inputs[name].dtype) for name, one in nudged(inputs, runtime).items()}
    forecast = SCATTER * float(np.max([worst_output(single, reference.meaning.run(moved)).of_peak, runtime / 2]))
    why = f"of PyTorch's own result, {SCATTER:.0f} times what a unit in the last place of the inputs does"
    return dict.fromkeys(single, _capped(forecast, why))


def _typed(found: OutputError, outputs: Mapping[str, np.ndarray], typed: Mapping[str, str] | None) -> OutputError:
    """Return the worst output; one of another dtype than it has to have, where none is of another shape."""
    for name, dtype in (typed or {}).items():
        given = str(outputs[name].real.dtype)
        if given != dtype and not found.form:
            form = f"{given} in place of {dtype}"
            return replace(found, form=form) if found.verdict == "fail" else replace(found, output=name, form=form)
    return found


def _coarsest(dtypes: Sequence[str]) -> float:
    """Return the distance of numbers at 1 in the coarsest of the float dtypes; float32's if there is none."""
    known = [epsilon(dtype) for dtype in set(dtypes) if dtype in (BFLOAT16, "float16", "float32", "float64")]
    return float(np.max(known)) if known else epsilon("float32")


def _capped(value: float, why: str) -> OutputLimit:
    """Return a limit; the largest that there is in the place of a larger one, and of NaN."""
    return OutputLimit(value, why) if value <= LOST else OutputLimit(LOST, CAPPED)


def _from_floor(exact: Any, single: Any, own: float, runtime: float) -> OutputLimit:
    floor = worst_output({"": exact}, {"": single}).of_peak
    coarser = float(np.max([1.0, runtime / own]))
    forecast = float(np.max([coarser * floor, runtime / 2]))
    rounded = f" times {coarser:.3g}, as the runtime's dtype is coarser" if runtime > own else ""
    floor_is = f"PyTorch's own distance from float64, {floor:.2g}{rounded}"
    source = floor_is if coarser * floor >= runtime / 2 else "one rounding of the result"
    return _capped(SCATTER * forecast, f"{SCATTER:.0f} times {source}")


def _carried(reference: Trace, exact: Mapping[str, Any], errors: Sequence[LocalError], limits: Limits) -> Limits:
    """Return the limits, raised to what roundings within the operators' bounds make of the outputs."""
    import torch

    bounds = {error.operator.name: error.bound for error in errors if np.isfinite(error.bound) and error.bound}
    generator = torch.Generator().manual_seed(0)

    def rounded(name: str, result: Any) -> Any:
        if name not in bounds or not result.is_floating_point():
            return None
        return result + bounds[name] * (2 * torch.rand(result.shape, generator=generator, dtype=result.dtype) - 1)

    noisy = reference.meaning.run(reference.inputs, rounded, double=True)
    found = {}
    for name, limit in limits.items():
        error = worst_output({name: exact[name]}, {name: noisy[name]}).of_peak
        if error > limit.value:
            limit = _capped(error, "what roundings within the bounds of all operators make of it")
        found[name] = limit
    return found
