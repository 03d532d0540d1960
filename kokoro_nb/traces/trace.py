"""The operators of a program by names that hold on every backend, and a trace: their results, and what is missing."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal, Protocol

import numpy as np

from kokoro_nb.errors import InputError
from kokoro_nb.traces.statistics import Statistics, describe

INPUT = "input:"
CONSTANT = "constant:"
# what these give is there already in what they are given: a fault in them shows in what reads them
_VIEWS = """
_unsafe_view alias chunk clone contiguous detach expand flatten permute reshape select slice split split_with_sizes
squeeze t transpose unbind unflatten unsqueeze view
"""
VIEWS = frozenset(_VIEWS.split())


TRAINED_NORM = "native_batch_norm_legit_functional.default[0]"
TRAINS = "normalises by the statistics of the batch: exported in training mode"
RANDOM = ("rand", "normal", "bernoulli", "multinomial", "uniform", "exponential")


@dataclass(frozen=True)
class Operator:
    """One operator of an exported program.

    Attributes
    ----------
    name : str
        Path of the module that calls it, the operator, and which call of it there: ``decode.0.norm1.norm:mean#2``.
    op : str
        The operator in full, as PyTorch calls it: ``aten.mean.dim``; of several results, with the place of this one:
        ``aten.split.Tensor[1]``.
    module_path : str
        Path of the module in the eager model; ``""`` for the model itself.
    inputs : tuple of str
        What it is computed from: names of operators, ``input:`` and the name of an input, or ``constant:`` and the
        name of a parameter, buffer or constant.
    shape : tuple of int
        Of its result.
    dtype : str
        Of its result, as NumPy calls it.
    """

    name: str
    op: str
    module_path: str
    inputs: tuple[str, ...]
    shape: tuple[int, ...]
    dtype: str

    @property
    def kind(self) -> str:
        """The operator without namespace and overload: ``mean``."""
        return self.op.split(".")[1] if "." in self.op else self.op

    @property
    def draws(self) -> bool:
        """Whether it draws random numbers."""
        return "dropout" in self.kind or self.kind.startswith(RANDOM)


def with_readers(operators: Iterable[Operator], names: Collection[str]) -> set[str]:
    """Return names with those of all operators, given in the order of execution, that are computed from them."""
    found = set(names)
    for one in operators:
        found |= {one.name} if found.intersection(one.inputs) else set()
    return found


def with_sources(operators: Sequence[Operator], names: Collection[str]) -> set[str]:
    """Return names with those of all that they are computed from."""
    found = set(names)
    for one in reversed(operators):
        found |= {*one.inputs} if one.name in found else set()
    return found


Taps = str | Sequence[str] | Callable[[Operator], bool]


def chosen(operators: Sequence[Operator], taps: Taps = "all") -> tuple[Operator, ...]:
    """Return the requested operators, in the order of execution.

    Parameters
    ----------
    operators : sequence of Operator
        All that there are.
    taps : str, sequence of str or callable
        ``"all"``, names, or a predicate on an `Operator`.

    Raises
    ------
    InputError
        If a name is unknown; it says which ones come near.
    """
    if callable(taps):
        return tuple(operator for operator in operators if taps(operator))
    if taps == "all":
        return tuple(operators)
    names = [taps] if isinstance(taps, str) else list(taps)
    known = {operator.name for operator in operators}
    for name in names:
        if name not in known:
            raise InputError(f"The program has no operator '{name}'{_near(name, known)}.")
    return tuple(operator for operator in operators if operator.name in names)


def _near(name: str, known: set[str]) -> str:
    from difflib import get_close_matches

    close = get_close_matches(name, known, n=3)
    return f"; did you mean {', '.join(close)}" if close else "; see the names in the `operators` of the program"


Keep = Literal["stats", "full"]
Given = Mapping[str, Any]  # arrays by name
Hook = Callable[[Any, tuple[Any, ...], dict[str, Any], Any], Any] | None


@dataclass(frozen=True, eq=False)
class Tap:
    """One captured result.

    Attributes
    ----------
    operator : Operator
        Whose result it is.
    statistics : Statistics
        Of the whole tensor.
    value : numpy.ndarray or None
        The tensor itself, where whole tensors were recorded.
    """

    operator: Operator
    statistics: Statistics
    value: np.ndarray | None = field(default=None, repr=False)

    @property
    def name(self) -> str:
        """Name of the operator."""
        return self.operator.name

    @property
    def op(self) -> str:
        """The operator, as PyTorch calls it."""
        return self.operator.op

    @property
    def module_path(self) -> str:
        """Path of the module in the eager model."""
        return self.operator.module_path


class Meaning(Protocol):
    """What the operators of a program compute: `backends.specification.Specification`."""

    @property
    def operators(self) -> tuple[Operator, ...]:
        """All of them, in the order of execution."""

    def recompute(self, name: str, inputs: Given, captured: Given, double: bool = True, substitute: Hook = None) -> Any:
        """Compute one operator on its inputs; `substitute` may see and change each result on the way."""


@dataclass(frozen=True, eq=False)
class Trace:
    """What one run of a program computed, operator by operator.

    Attributes
    ----------
    backend : str
        Name of the backend that ran it.
    taps : tuple of Tap
        In the order of execution of the exported program.
    missing : tuple of str
        Names of the operators that were requested and not captured: folded, fused or merged by the backend.
    outputs : dict
        Outputs of this very run, by name: they show whether the taps changed the answer.
    how : str
        How the results were captured, in a few words.
    inputs : dict
        What the program was given, by name.
    meaning : Meaning or None
        What the operators compute, where the program that was run is known to be right; it is not saved.
    requested : tuple of Operator
        Those whose results were to be captured.
    """

    backend: str
    taps: tuple[Tap, ...] = field(repr=False)
    missing: tuple[str, ...] = ()
    outputs: Mapping[str, np.ndarray] = field(default_factory=dict, repr=False)
    how: str = ""
    inputs: Mapping[str, np.ndarray] = field(default_factory=dict, repr=False)
    meaning: Any = field(default=None, repr=False)
    requested: tuple[Operator, ...] = field(default=(), repr=False)

    def __getitem__(self, name: str) -> Tap:
        """Return the tap of the operator `name`.

        Raises
        ------
        InputError
            If there is none.
        """
        for tap in self.taps:
            if tap.name == name:
                return tap
        why = "it could not be captured" if name in self.missing else "it was not requested, or is not in the program"
        raise InputError(f"The trace has no tap '{name}': {why}.")

    @cached_property
    def values(self) -> dict[str, np.ndarray]:
        """The whole tensors, where they were recorded, by the name of the operator."""
        return {tap.name: tap.value for tap in self.taps if tap.value is not None}

    def value(self, name: str) -> np.ndarray:
        """Return what was captured under a name, or given as the input of that name."""
        return np.asarray(self.inputs[name.removeprefix(INPUT)] if name.startswith(INPUT) else self.values[name])

    def with_values(self, value: Callable[[Tap], np.ndarray | None]) -> "Trace":
        """Return the trace with what a function of each tap returns as its value; its statistics stay."""
        return replace(self, taps=tuple(replace(tap, value=value(tap)) for tap in self.taps))

    def without_tensors(self) -> "Trace":
        """Return the trace with the statistics of each operator alone; its inputs and outputs stay."""
        return self.with_values(lambda tap: None)


def sharing(trace: Trace, other: Trace) -> Trace:
    """Return `trace` with the tensors of `other` wherever its own are the same bit for bit: they lie in memory once."""
    known = other.values
    return trace.with_values(lambda tap: known[tap.name] if _same_bits(tap.value, known.get(tap.name)) else tap.value)


def _same_bits(one: np.ndarray | None, other: np.ndarray | None) -> bool:
    if one is None or other is None or one.dtype != other.dtype or one.shape != other.shape:
        return False
    if not (one.flags.c_contiguous and other.flags.c_contiguous):
        return False  # to compare the bits both would be copied
    return np.array_equal(one.reshape(-1).view(np.uint8), other.reshape(-1).view(np.uint8))


class Recorder:
    """Takes the results as a backend computes them, and records the statistics of each, or the tensor as well.

    Parameters
    ----------
    operators : sequence of Operator
        Those whose results are to be captured.
    keep : str
        ``stats``: the statistics alone; ``full``: a copy of the tensor as well.

    Raises
    ------
    InputError
        If `keep` is neither.
    """

    def __init__(self, operators: Sequence[Operator], keep: Keep = "stats"):
        if keep not in ("stats", "full"):
            raise InputError(f"'{keep}' is not a way to record a tap; use 'stats' or 'full'.")
        self._operators = {operator.name: operator for operator in operators}
        self._keep = keep
        self._taps: dict[str, Tap] = {}

    def wants(self, name: str | None) -> bool:
        """Return whether the result of operator `name` is to be captured."""
        return name in self._operators

    def add(self, name: str, value: Any) -> None:
        """Measure the result of the operator `name`, in whatever shape; of two under one name the later one counts."""
        operator, array = self._operators[name], np.asarray(value)
        if operator.dtype.startswith("complex") and array.dtype.kind == "f":  # as a runtime without them has the parts
            array = np.ascontiguousarray(array, np.zeros(0, operator.dtype).real.dtype).view(operator.dtype)[..., 0]
        self._taps[name] = Tap(operator, describe(array), np.array(array) if self._keep == "full" else None)

    def trace(self, backend: str, inputs: Given, outputs: Given, how: str, meaning: Meaning | None = None) -> Trace:
        """Return what was recorded, with what else there is to say of the run: see `Trace`."""
        taps = tuple(self._taps[name] for name in self._operators if name in self._taps)
        missing = tuple(name for name in self._operators if name not in self._taps)
        return Trace(backend, taps, missing, dict(outputs), how, dict(inputs), meaning, tuple(self._operators.values()))
