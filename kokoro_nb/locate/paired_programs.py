"""Where a rewritten program parts from what it was rewritten from, though each of its operators is right by itself.

Both are run in PyTorch in float64, so that a result that both have is the same to 1e-6 of its peak, whatever it is
called. An operator parts from the reference if its result is nowhere in the reference, all its inputs are, and
what it gives reaches an output that is wrong. A harmless rewriting has results of its own as well, but comes together
again before the output.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from kokoro_nb.backends.exported import Exported
from kokoro_nb.backends.signature import Arrays, array_of
from kokoro_nb.errors import InputError
from kokoro_nb.locate.culprit import Culprit, Mechanism, Name
from kokoro_nb.locate.investigation import reference_trace
from kokoro_nb.locate.local_error import peak_of, wrong_beyond
from kokoro_nb.locate.mechanism_rules import mechanisms
from kokoro_nb.locate.output_error import OutputError, OutputLimit, worst_output
from kokoro_nb.locate.rule_evidence import Evidence, call_of
from kokoro_nb.locate.verdicts import wrong_operator
from kokoro_nb.traces.trace import CONSTANT, INPUT, TRAINED_NORM, TRAINS, Tap, Trace, with_readers

SAME = 1e-6  # of the peak: float64 has 1e-16, and rewritings sum in other orders
MOST, LOUD, FEW = 0.9, 1e-3, 3  # share of the elements, of the peak, and their least number, for a factor
PADDED: Name = "padding leaking through statistics"
PARTED = 1e-5  # of the peak of an output: what float32 could not show


def parting(
    reference: Exported, given: Arrays, candidate: Exported, inputs: Arrays, backend: str
) -> tuple[Culprit | None, OutputError]:
    """Compare a program with the one that it was rewritten from.

    Parameters
    ----------
    reference, given
        What is right, and its inputs by name.
    candidate, inputs
        The program, and its inputs by name. Where an axis is longer, what the reference has is held to be its
        beginning: the valid part of a buffer.
    backend : str
        On which the program runs.

    Returns
    -------
    Culprit or None
        Where the program parts from the reference; None if its outputs are those of the reference, or it is not seen.
    OutputError
        How far the output is off, on the part that both have; it passes where float32 could hide that.

    Raises
    ------
    InputError
        If the two have different outputs.
    """
    if reference.outputs != candidate.outputs:
        both = f"The reference gives {', '.join(reference.outputs)} and the program {', '.join(candidate.outputs)}"
        raise InputError(f"{both}; give a reference with the same outputs.")
    right = reference_trace(reference, given, "eager-float64")
    own = reference_trace(candidate, inputs, "eager-float64")
    seen = {name: _valid(np.asarray(own.outputs[name]), np.asarray(value)) for name, value in right.outputs.items()}
    known = {name: value for name, (_, value) in seen.items()}
    limits = dict.fromkeys(known, OutputLimit(PARTED, "what float32 may hide"))
    output = worst_output(known, {name: value for name, (value, _) in seen.items()}, limits)
    parted = [] if output.verdict == "pass" else _parted(own, right)
    theirs, mine = reference.specification.givers, candidate.specification.givers
    twins = _twins(parted, own, right, {mine[name]: theirs[name] for name in theirs})
    return (_culprit(parted, twins, right, own, candidate, backend) if parted else None), output


def _culprit(
    parted: list[Tap], twins: Mapping[str, Tap], right: Trace, own: Trace, candidate: Exported, backend: str
) -> Culprit:
    """Return the first that has a counterpart in the reference, with those before it that have none."""
    place = next((place for place, tap in enumerate(parted) if tap.name in twins), 0)
    twin = twins.get(parted[place].name)
    if twin is not None:
        place, twin = _producer(parted, place, twin, right)
    tap = parted[place]
    source = candidate.specification.source_line(tap.name)
    candidates = (tap.name, *(one.name for one in reversed(parted[:place])))
    if twin is None:
        reason = "the reference has no operator of that name"
        return Culprit("divergence", "fail", backend, tap, candidates, source=source, reason=reason)
    given, expected = _valid(np.asarray(tap.value), np.asarray(twin.value))
    error = wrong_beyond(twin.operator, given, expected, SAME)
    values, theirs = _values(own), _values(right)
    alike = tap.statistics.shape == twin.statistics.shape
    call = call_of(right.meaning, twin.name, right.inputs, right.values) if alike else {}
    evidence = Evidence(error, {one: values[one] for one in tap.operator.inputs if one in values}, call)
    rules = mechanisms(evidence)  # what is computed goes before what the shapes say, and before what is read
    padded, shifted = (tuple(one for one in rules if one.name == name) for name in (PADDED, "changed layout or shift"))
    others = (one for one in rules if one not in (*padded, *shifted))
    reading = []
    for mine, other in zip(tap.operator.inputs, twin.operator.inputs, strict=False):
        given_there = [name for name, one in theirs.items() if mine in values and _same(values[mine], one)]
        if tap.op == twin.op and other in theirs and given_there and other not in given_there:
            text = f"it reads what is {given_there[0]} in the reference, which reads {other} there"
            reading.append(Mechanism("operator lowered as another", "another value is read", (text,), explained=1.0))
    causes = (*padded, *_structural(tap, twin, right, own), *_factor(given, expected), *shifted, *reading, *others)
    causes = causes or _another_call(tap, twin, right, own)
    return replace(wrong_operator(evidence, backend, tap, causes), ratio=None, candidates=candidates, source=source)


def _another_call(tap: Tap, twin: Tap, right: Trace, own: Trace) -> tuple[Mechanism, ...]:
    """Return that another operator, or the same with other arguments, reads what its counterpart reads, if it does."""
    pairs = [(one.op, trace.meaning.numbers(one.name)) for one, trace in ((tap, own), (twin, right))]
    mine, theirs = (f"{op}({', '.join(f'{key}={value}' for key, value in given.items())})" for op, given in pairs)
    if mine == theirs or not {*tap.operator.inputs} & {*twin.operator.inputs}:
        return ()
    return (Mechanism("operator lowered as another", "another call", (f"{mine} in place of {theirs}",)),)


def _values(trace: Trace) -> dict[str, np.ndarray]:
    return {**trace.values, **{f"{INPUT}{name}": np.asarray(value) for name, value in trace.inputs.items()}}


def _twins(parted: list[Tap], own: Trace, right: Trace, givers: Mapping[str, str]) -> dict[str, Tap]:
    """Return the counterparts of operators: those of their names, else of what gives an output what gives it there.

    A namesake that stands elsewhere is none.
    """
    named, same = {tap.name: tap for tap in right.taps}, {tap.name: tap.name for tap in parted}
    for names in (same, givers):
        pairs = [(tap, named[names[tap.name]]) for tap in parted if names.get(tap.name) in named]
        pairs = [(one, twin) for one, twin in pairs if not _elsewhere(one, twin, own, right)]
        if found := {one.name: twin for one, twin in pairs if len(one.operator.shape) == len(twin.operator.shape)}:
            return found
    return {}


def _elsewhere(tap: Tap, twin: Tap, own: Trace, right: Trace) -> bool:
    """Return whether a namesake reads what is computed from the operator here, and nothing near what that reads."""
    there, read = {one.name: one.operator.inputs for one in right.taps}, {*twin.operator.inputs}
    near = read.union(*(there.get(one, ()) for one in read))
    later = with_readers([one.operator for one in own.taps], [tap.name])
    return bool(later & read) and not near.intersection(tap.operator.inputs)


def _producer(parted: list[Tap], place: int, twin: Tap, right: Trace) -> tuple[int, Tap]:
    """Return the first of the operators that give the one input in which two equal operators differ, and its twin."""
    places, known = {tap.name: at for at, tap in enumerate(parted)}, {tap.name: tap for tap in right.taps}
    while parted[place].op == twin.op:
        read = zip(parted[place].operator.inputs, twin.operator.inputs, strict=False)
        pairs = [(places[one], known[other]) for one, other in read if one in places and other in known]
        if len(pairs) != 1 or parted[pairs[0][0]].operator.shape != pairs[0][1].operator.shape:
            break
        place, twin = pairs[0]
    return place, twin


def _structural(tap: Tap, twin: Tap, right: Trace, own: Trace) -> Iterator[Mechanism]:
    """Yield what the two programs themselves say: other sizes, or a constant where the reference reads an input."""
    longer = [
        f"'{name}' is {np.shape(own.inputs[name])} here and {np.shape(value)} in the reference"
        for name, value in right.inputs.items()
        if name in own.inputs and np.shape(own.inputs[name]) != np.shape(value)
    ]
    if longer and tap.op == twin.op:
        valid = f"the valid part of the input of {tap.name} is right, and that of its result is not"
        yield Mechanism(PADDED, "the padding behind the valid part takes part in it", (valid, *longer), explained=1.0)
    if tap.op.endswith(TRAINED_NORM) and tap.op != twin.op:
        yield Mechanism("operator lowered as another", "batch norm in training mode", (f"it {TRAINS}",), explained=1.0)
    lost = sorted(set(right.inputs) - set(own.inputs))
    constants = [one for one in tap.operator.inputs if one.startswith(CONSTANT) and one not in twin.operator.inputs]
    if lost and constants:
        text = f"the reference takes {', '.join(lost)} as an input, and here {constants[0]} stands in its place"
        yield Mechanism("changed constant", "a constant in the place of an input", (text,), explained=1.0)


def _factor(given: np.ndarray, expected: np.ndarray) -> Iterator[Mechanism]:
    """Yield a factor that nine elements of ten agree with: the ends of a signal may have their own."""
    peak = peak_of(expected)
    loud = np.abs(expected) > LOUD * peak
    if given.dtype.kind != "f" or given.size < FEW or not loud.any() or not np.isfinite([given, expected]).all():
        return
    factor = float(np.median(given[loud] / expected[loud]))
    share = float(np.mean(np.abs(given - factor * expected) <= LOUD * np.abs(factor) * peak))
    if share >= MOST and abs(factor - 1) > LOUD:
        text = f"{100 * share:.3g} % of its result is {factor:.6g} times the right value"
        yield Mechanism("changed scale", f"a factor of {factor:.4g}", (text,), explained=share)


def _parted(own: Trace, right: Trace) -> list[Tap]:
    """Return the operators that reach a result of no use to anybody else by results that the reference has not."""
    read = {one for tap in own.taps for one in tap.operator.inputs}
    found, reaching = [], set[str]()
    for tap in reversed(own.taps):
        if (tap.name not in read or tap.name in reaching) and not _occurs(tap, right):
            found.append(tap)
            reaching |= set(tap.operator.inputs)
    return found[::-1]


def _occurs(tap: Tap, reference: Trace) -> bool:
    """Return whether the reference has that result: under that name, or, if it is no mere flag or constant, any.

    Where the reference calls the same operator by that name on what has the same names, no other result counts: a value
    that was masked there may stand in it unmasked, too.
    """
    value, named = np.asarray(tap.value), [one for one in reference.taps if one.name == tap.name]
    alike = [(one.op, one.operator.inputs) for one in named] == [(tap.op, tap.operator.inputs)]
    alone = alike or value.dtype.kind != "f" or not value.size or value.min() == value.max()
    return any(_same(value, np.asarray(one.value)) for one in (named if named and alone else reference.taps))


def _same(given: np.ndarray, expected: np.ndarray) -> bool:
    if given.ndim != expected.ndim or given.dtype.kind != expected.dtype.kind:
        return False
    if any(a < b for a, b in zip(given.shape, expected.shape, strict=True)):
        return False
    given, expected = _valid(given, expected)
    if expected.dtype.kind not in "fc":
        return np.array_equal(given, expected)
    return bool(np.allclose(given, expected, rtol=0, atol=SAME * peak_of(expected), equal_nan=True))


def _valid(given: np.ndarray, expected: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return of both the beginning of each axis that both have."""
    if given.ndim != expected.ndim:
        raise InputError(f"The reference gives shape {expected.shape} and the program {given.shape}.")
    part = tuple(slice(min(a, b)) for a, b in zip(given.shape, expected.shape, strict=True))
    return given[part], expected[part]


def other_program(reference: object) -> tuple[object, Mapping[str, object]] | None:
    """Return a reference that comes with inputs of its own, a pair; None for any other."""
    if isinstance(reference, tuple) and len(reference) == 2 and isinstance(reference[1], Mapping):
        return reference[0], reference[1]
    return None


def with_inputs(reference: Any, inputs: Mapping[str, Any], instead: Mapping[str, Any]) -> Any:
    """Return a reference that is run on `instead` where it was to be run on the program's own `inputs`."""
    pair = other_program(reference)
    if pair is None:
        return reference
    same = [name for name, one in pair[1].items() if np.array_equal(array_of(one), array_of(inputs.get(name, ())))]
    return pair[0], {**pair[1], **{name: instead[name] for name in same if name in instead}}
