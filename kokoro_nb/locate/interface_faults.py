"""What is wrong with an export although its operators compute what they should: dtypes, state, and random numbers."""

from dataclasses import replace
from typing import Any

import numpy as np

from kokoro_nb.backends.ladder import difference
from kokoro_nb.backends.signature import BFLOAT16
from kokoro_nb.locate.culprit import Culprit, Mechanism, wrong_at
from kokoro_nb.locate.effect import Deviation
from kokoro_nb.locate.investigation import Investigation
from kokoro_nb.locate.local_error import parts
from kokoro_nb.locate.output_error import OutputLimit, worst_output
from kokoro_nb.traces.operators import CONSTANT, Operator
from kokoro_nb.traces.statistics import describe
from kokoro_nb.traces.trace import Tap

RANDOM = (
    *("rand", "rand_like", "randn", "randn_like", "normal", "bernoulli", "multinomial", "randint"),
    *("dropout", "native_dropout"),
)


def drawn_once(backend: str, operator: Operator) -> Culprit:
    """Return an operator that draws numbers as a culprit: two calls gave the same."""
    text = "every call gives the same numbers, which are not those of PyTorch"
    cause = Mechanism("baked-in random numbers", "random numbers drawn at export, or left out", (text,))
    return wrong_at(Tap(operator, describe(np.empty(0, operator.dtype))), backend, (cause,), channels=text)


def held_dtypes(meaning: Any) -> dict[str, str]:
    """Return the dtype of the array that holds each output, as PyTorch gives it."""
    return {name: "float32" if dtype == BFLOAT16 else dtype for name, dtype in meaning.output_dtypes.items()}


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
    text = "every call gives what the first gives, bit for bit" if same else f"on a later call {wrong}"
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
    if deviation is None or culprit.mechanisms or not held:
        return culprit
    trace, off = found.candidate, np.abs(deviation.given - deviation.right).max()
    for name in held:
        zeroed = _with_zeros(meaning.stored(name))
        instead = parts(meaning.recompute(culprit.captured, trace.inputs, trace.values, True, zeroed).numpy())
        if np.abs(deviation.given - instead).max() <= 1e-3 * off:
            text = f"with zeros in '{name}' PyTorch gives what the runtime gave"
            cause = Mechanism("lost state", f"the buffer '{name}' starts at 0, not at the module's values", (text,))
            return replace(culprit, mechanisms=(cause,))
    return culprit


def _with_zeros(start: Any) -> Any:
    """Return what computes an operator with zeros in place of the tensor `start` among its arguments."""
    import torch

    def other(one: Any) -> Any:
        same = isinstance(one, torch.Tensor) and torch.equal(one.to(start.dtype), start)
        return torch.zeros_like(one) if same else one

    def computed(target: Any, args: Any, kwargs: Any, _: Any) -> Any:
        args, kwargs = torch.utils._pytree.tree_map(other, (args, kwargs))
        return target(*args, **kwargs)

    return computed
