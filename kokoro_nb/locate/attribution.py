"""Which operators cost the output its precision where each of them is right for its dtype."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from kokoro_nb.locate.alternatives import ALTERNATIVES
from kokoro_nb.locate.culprit import Culprit, Mechanism, wrong_at
from kokoro_nb.locate.effect import MEASURED, Deviation, ErrorPropagation, share_gone
from kokoro_nb.locate.local_error import LocalError
from kokoro_nb.locate.mechanism_rules import lowered_as_another
from kokoro_nb.locate.rule_evidence import Evidence, call_of
from kokoro_nb.locate.search import smallest
from kokoro_nb.traces.operators import Operator
from kokoro_nb.traces.trace import Trace

SHARES = (0.5, 1 / 8, 1 / 64)  # of the limit: what an operator, or a run of them, may do to the output and be left out
FEW = 32  # operators: a set of more is not made smaller
BUDGET = 160  # runs of the program: after them, what is left undivided is named whole
SUMS, PERIODIC = ("cumsum", "cumprod"), ("sin", "cos", "tan", "remainder", "fmod")


def lossy_operators(propagation: ErrorPropagation) -> tuple[str, ...]:
    """Return a smallest set of operators without whose rounding the output is within its limit; empty if none is.

    Runs of operators that together do little are left out, halved down to single ones; of what is left, delta
    debugging makes a set of which none can be spared. Of each set the errors are carried to the output. Where that
    takes more than `BUDGET` runs, the set is larger than it had to be.

    Parameters
    ----------
    propagation : ErrorPropagation
        With the errors of all captured operators, and the limits of the outputs.
    """
    whole = propagation.error(propagation.names)
    if whole.verdict != "fail" or not whole.limit > 0:
        return ()
    for share in SHARES:
        chosen = _harmful(propagation, propagation.names, share)
        if chosen and _good(propagation, chosen):
            break
    else:
        chosen = propagation.names
        if not _good(propagation, chosen):
            return ()
    if len(chosen) > FEW or propagation.runs >= BUDGET:
        return chosen
    return smallest(chosen, lambda names: _good(propagation, names))


def _good(propagation: ErrorPropagation, names: Sequence[str]) -> bool:
    return propagation.error_without(names).verdict == "pass"


def _harmful(propagation: ErrorPropagation, names: tuple[str, ...], share: float) -> tuple[str, ...]:
    """Return the operators among `names` that alone put the output off by more than this share of its limit."""
    if not names:
        return ()
    error = propagation.error(names)
    if error.finite == 1 and error.of_peak <= share * error.limit:
        return ()
    if len(names) == 1 or propagation.runs >= BUDGET:
        return names
    middle = len(names) // 2
    return _harmful(propagation, names[:middle], share) + _harmful(propagation, names[middle:], share)


def lossy_culprits(
    names: Sequence[str],
    propagation: ErrorPropagation,
    deviations: dict[str, Deviation],
    reference: Trace,
    candidate: Trace,
    errors: Sequence[LocalError],
) -> tuple[Culprit, ...]:
    """Return the operators of `lossy_operators` as culprits, each with its effect and why its dtype does not do."""
    local = {error.operator.name: error for error in errors}
    assert reference.meaning is not None
    operators = {operator.name: operator for operator in reference.meaning.operators}
    whole = propagation.error(propagation.names)
    found: list[Culprit] = []
    for name in names:
        mechanism = precision_mechanism(deviations[name], operators, name, candidate[name].statistics.dtype)
        about: dict[str, Any] = {"upstream": operators[name].inputs}
        if name in local:
            about |= {"local_error": local[name].of_peak, "ratio": local[name].ratio}
        if len(found) < MEASURED:
            alone, rest = propagation.error((name,)), propagation.error_without((name,))
            carried = f"its rounding alone puts the output off by {alone.of_peak:.3g} of the peak"
            carried += f"; the limit is {whole.limit:.3g}"
            if alone.finite < 1:
                carried = f"it alone makes {100 * (1 - alone.finite):.3g} % of the output not finite"
            mechanism = replace(mechanism, evidence=(*mechanism.evidence, carried))
            about |= {"effect": share_gone(whole, rest), "alone": alone.of_peak}
        causes = (*_as_another(reference.meaning, candidate, operators[name], deviations[name]), mechanism)
        words = f"right for {candidate[name].statistics.dtype}, which is too little for the output"
        found.append(wrong_at(candidate[name], candidate.backend, causes, channels=words, **about))
    return tuple(found)


def _as_another(meaning: Any, candidate: Trace, operator: Operator, deviation: Deviation) -> Iterator[Mechanism]:
    """Yield the mechanism of an operator that gives what another does, near enough that rounding of its inputs may."""
    given, right = (np.asarray(one, np.float64) for one in (deviation.given, deviation.right))
    if given.shape != right.shape or operator.kind not in ALTERNATIVES:
        return
    call = call_of(meaning, operator.name, candidate.inputs, candidate.values)
    peak = float(np.max(np.abs(right[np.isfinite(right)]), initial=0.0))
    error = LocalError(operator, float("nan"), peak, float("nan"), given != right, given, right, ())
    found = lowered_as_another(Evidence(error, {}, call))
    if found is not None:
        yield found


def precision_mechanism(deviation: Deviation, operators: dict[str, Operator], name: str, dtype: str) -> Mechanism:
    """Return why the result of an operator loses what the output needs: its range, its bits, or a phase that grows.

    Parameters
    ----------
    deviation : Deviation
        Of the operator.
    operators : dict
        All operators of the program by name.
    name : str
        The operator.
    dtype : str
        Of its result on the runtime.
    """
    given, right = deviation.given, deviation.right
    known = np.abs(right[np.isfinite(right)])
    peak = float(np.max(known, initial=0.0))
    if dtype not in ("float16", "float32", "float64"):
        return Mechanism("too few bits", f"a result of {dtype} that carries rounding on")
    info = np.finfo(dtype)
    if (np.isfinite(right) & ~np.isfinite(given)).any() and peak > float(info.max):
        text = f"the largest right value is {peak:.4g}, above {float(info.max):.6g}"
        return Mechanism("overflow of the dtype", f"the range of {dtype}", (text,))
    step = float(np.spacing(np.asarray(peak, dtype))) if peak <= float(info.max) else float("inf")
    text = f"its values reach {peak:.4g}, where numbers of {dtype} are {step:.3g} apart"
    after, before = {name}, {name}
    for one in operators.values():  # in the order of execution
        after |= {one.name} if after & {*one.inputs} else set()
    for one in reversed(operators.values()):
        before |= {*one.inputs} if one.name in before else set()
    running = any(one.kind in SUMS and one.name in before | after for one in operators.values())
    if running and any(operators[one].kind in PERIODIC for one in after - {name}):
        return Mechanism(
            "accumulated phase", f"a phase that grows, in {dtype}, before it is taken as an angle", (text,)
        )
    return Mechanism("too few bits", f"{dtype} holds too few bits for what is computed from it", (text,))
