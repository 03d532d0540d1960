"""What is wrong with an export although its operators compute what they should: dtypes, state, and random numbers."""

from collections.abc import Collection
from dataclasses import replace
from typing import Any

import numpy as np

from kokoro_nb.backends.ladder import difference
from kokoro_nb.backends.signature import BFLOAT16
from kokoro_nb.backends.specification import Specification
from kokoro_nb.faults.planting import program_copy
from kokoro_nb.locate.culprit import Culprit, Mechanism, wrong_at
from kokoro_nb.locate.investigation import Investigation, Subject
from kokoro_nb.locate.local_error import parts
from kokoro_nb.locate.output_error import OutputLimit, worst_output
from kokoro_nb.locate.propagation import Deviation
from kokoro_nb.traces.statistics import describe
from kokoro_nb.traces.trace import CONSTANT, Operator, Tap

RANDOM = (
    *("rand", "rand_like", "randn", "randn_like", "normal", "bernoulli", "multinomial", "randint"),
    *("dropout", "native_dropout"),
)
HELD = {BFLOAT16: "float32", "complex64": "float32", "complex128": "float64"}


def drawing(meaning: Any) -> list[Operator]:
    """Return the operators of a program that draw random numbers."""
    return [one for one in meaning.operators if one.kind in RANDOM]


def drawn(backend: str, operator: Operator, anew: bool) -> Culprit:
    """Return an operator that draws numbers as a culprit: `anew` in each call, or the same in two."""
    text = "every call gives the same numbers, which are not those of PyTorch"
    words = "random numbers drawn at export, or left out"
    if anew:
        text, words = "every call drops other numbers", "a dropout that is left on: the module is in training mode"
    cause = Mechanism("baked-in random numbers", words, (text,))
    return wrong_at(Tap(operator, describe(np.empty(0, operator.dtype))), backend, (cause,), channels=text)


def held_dtypes(meaning: Any) -> dict[str, str]:
    """Return the dtype of the numbers of the array that holds each output; complex ones may be given as their parts."""
    return {name: HELD.get(dtype, dtype) for name, dtype in meaning.output_dtypes.items()}


def retyped(found: Investigation) -> tuple[Culprit, ...]:
    """Return the first operator of another dtype than in PyTorch, where an output is: it is right but for that."""
    for tap in found.candidate.taps:
        if tap.statistics.dtype != ("float32" if tap.operator.dtype == BFLOAT16 else tap.operator.dtype):
            text = f"{tap.statistics.dtype} in place of {tap.operator.dtype}"
            cause = Mechanism("another shape or dtype", "a result of another dtype", (text,))
            return (wrong_at(tap, found.backend, (cause,), channels=text),)
    return ()


def lost_state(found: Investigation, limits: dict[str, OutputLimit]) -> tuple[Culprit, ...]:
    """Return the operators that compute the new state of a program whose later calls are not those of PyTorch."""
    pairs = list(zip(found.history.right, found.history.later, strict=True))
    errors = [worst_output(right, given, limits) for right, given in pairs]
    wrong = next((error for error in errors if error.verdict == "fail"), None)
    if wrong is None:
        return ()
    same = all(difference(dict(found.history.first), dict(given)) == 0 for _, given in pairs)
    text = "every call gives the result of the first, bit for bit" if same else f"on a later call {wrong}"
    meaning: Any = found.reference.meaning
    operators = {one.name: one for one in meaning.operators}
    culprits = {}
    for buffer, name in meaning.state.items():
        if name in operators:
            cause = Mechanism("lost state", f"'{buffer}' is not kept from one call to the next", (text,))
            tap = Tap(operators[name], describe(np.empty(0)))
            culprits[name] = wrong_at(tap, found.backend, (cause,), channels=text)
    return tuple(culprits.values())


def with_lost_start(culprit: Culprit, deviation: Deviation | None, found: Investigation) -> Culprit:
    """Return a culprit with its mechanism, if it gives what it gives where a buffer that is written starts at 0."""
    meaning: Any = found.reference.meaning
    read = [] if culprit.tap is None else culprit.tap.operator.inputs
    held = [name for name in meaning.state if f"{CONSTANT}{name}" in read]
    if deviation is None or not held:
        return culprit
    trace, given = found.candidate, np.asarray(deviation.given, np.float64)
    off = np.abs(given - deviation.right).max()
    for name in held:
        instead = parts(_zeroed(meaning, [name]).recompute(culprit.captured, trace.inputs, trace.values).numpy())
        if np.abs(given - instead).max() <= 1e-3 * off:
            return replace(culprit, mechanisms=(_lost_start(name), *culprit.mechanisms))
    return culprit


def lost_start(subject: Subject, outputs: Any, limits: dict[str, OutputLimit]) -> tuple[Culprit, ...]:
    """Return what computes the new values of buffers, if the outputs are those where all buffers start at 0."""
    meaning: Any = subject.known.meaning
    buffers = meaning.program.graph_signature.buffers_to_mutate.values()
    held = {name: made for name, made in meaning.state.items() if name in buffers and made}
    if not any(meaning.stored(name).any() for name in held):
        return ()
    instead = _zeroed(meaning, held).run(subject.known.inputs, double=True)
    if worst_output(instead, outputs, limits).verdict != "pass":
        return ()
    taps = {one.name: Tap(one, describe(np.empty(0))) for one in meaning.operators}
    causes = {name: _lost_start(name) for name in held}
    return tuple(
        wrong_at(taps[made], subject.runtime.name, (causes[name],), channels=causes[name].statement)
        for name, made in held.items()
    )


def _lost_start(name: str) -> Mechanism:
    text = f"with zeros in '{name}' PyTorch gives the result of the runtime"
    return Mechanism("lost state", f"the buffer '{name}' starts at 0, not at the module's values", (text,))


def _zeroed(meaning: Any, names: Collection[str]) -> Specification:
    """Return a program whose buffers of these names start at 0."""
    import torch

    program = program_copy(meaning.program)
    for name in names:
        held = program.state_dict if name in program.state_dict else program.constants
        held[name] = torch.zeros_like(meaning.stored(name))
    return Specification(program, meaning.inputs, meaning.outputs)
