"""What a rule for mechanisms looks at, what the wrong elements have in common, and how an explanation is measured."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from torch.fx.node import map_aggregate

from kokoro_nb.backends.called_operators import arguments_by_name
from kokoro_nb.locate.culprit import Mechanism, Name
from kokoro_nb.locate.local_error import LocalError
from kokoro_nb.traces.statistics import in_channels, wrong_channels
from kokoro_nb.traces.trace import CONSTANT, Meaning, Trace

HALF = 65504.0  # largest finite float16
NEAR = 1e-5  # of the peak: two computations of a number in float32 are as near to each other as that
MOSTLY = 0.99  # share of the error, beyond which an explanation is taken up
_EVEN = 1e-3  # spread of the error along time, of its mean, below which it counts as constant


@dataclass(frozen=True)
class Pattern:
    """Where a tensor is wrong.

    Attributes
    ----------
    count, size : int
        Wrong elements, and all.
    channels : int
        How many channels the tensor has: axis 1 of two axes or more; 0 for fewer axes.
    whole, partly : tuple of int
        Channels that are wrong throughout, and in part.
    constant : bool
        Whether the error is finite and the same along the last axis, which is another than that of the channels and
        longer than 1, in every channel that is wrong throughout.
    begin, end : int
        First wrong position along the last axis, and the one after the last.
    length : int
        Size of the last axis.
    """

    count: int
    size: int
    channels: int
    whole: tuple[int, ...]
    partly: tuple[int, ...]
    constant: bool
    begin: int
    end: int
    length: int

    @property
    def words(self) -> str:
        """The pattern in one phrase.

        >>> values = np.zeros((1, 4, 3)); bad = values.copy(); bad[0, 1] = 2.0
        >>> pattern(bad != values, bad - values).words
        '1 of 4 channels wholly, by the same amount along time: a per-channel scalar'
        """
        if not self.count:
            return "nowhere"
        everywhere, where = self.count == self.size, in_channels(self.whole, self.partly, self.channels)
        text = "everywhere" if everywhere else where or f"{self.count} of {self.size} elements"
        if self.constant:
            text += ", by the same amount along time" + ("" if everywhere else ": a per-channel scalar")
        elif (self.begin, self.end) != (0, self.length):
            text += f", at positions {self.begin} to {self.end - 1} of {self.length} along the last axis"
        return text


def pattern(wrong: np.ndarray, error: np.ndarray) -> Pattern:
    """Describe where `wrong` holds.

    Parameters
    ----------
    wrong : numpy.ndarray of bool
        The elements that are wrong.
    error : numpy.ndarray of the same shape
        What was given less what is right; of an element that is not finite on either side, NaN.
    """
    length = wrong.shape[-1] if wrong.ndim else 1
    places = np.flatnonzero(wrong.reshape(-1, length).any(axis=0)) if wrong.size else np.array([], dtype=int)
    begin, end = (int(places[0]), int(places[-1]) + 1) if places.size else (0, 0)
    channels, (whole, partly) = (wrong.shape[1], wrong_channels(wrong)) if wrong.ndim > 1 else (0, ((), ()))
    in_time = wrong.ndim > 2 and length > 1  # the last axis is none of time where it is that of the channels
    constant = in_time and bool(whole) and not partly and _even(np.moveaxis(error, 1, 0)[list(whole)])
    return Pattern(int(wrong.sum()), int(wrong.size), channels, whole, partly, constant, begin, end, length)


def _even(error: np.ndarray) -> bool:
    """Return whether each row along the last axis holds one finite number."""
    return bool((np.ptp(error, axis=-1) < _EVEN * np.abs(error).max(axis=-1)).all())


@dataclass(frozen=True)
class Evidence:
    """What a rule may look at.

    Attributes
    ----------
    error : LocalError
        The operator, what it gave and what is right.
    inputs : dict
        Name -> input.
    arguments : dict
        Name in the operator's schema -> what it was called with; floats in float64. Empty where that is not known.
    """

    error: LocalError
    inputs: dict[str, np.ndarray]
    arguments: Mapping[str, Any] = field(default_factory=dict)

    @property
    def kind(self) -> str:
        """The operator without namespace and overload: ``instance_norm``."""
        return self.error.operator.kind

    @cached_property
    def pattern(self) -> Pattern:
        """Where it is wrong."""
        error = self.error
        given = np.asarray(error.given, np.float64) if error.given.shape == error.right.shape else np.nan
        with np.errstate(invalid="ignore"):
            return pattern(error.wrong, given - np.asarray(error.right, np.float64))

    @property
    def first(self) -> np.ndarray | None:
        """The first of its inputs that is a float tensor, in float64."""
        return next((v.astype(np.float64) for v in self.inputs.values() if v.dtype.kind == "f"), None)

    @property
    def call(self) -> Mapping[str, Any]:
        """The arguments; where they are not known, its float inputs as the operands ``self`` and ``other``."""
        floats = [value.astype(np.float64) for value in self.inputs.values() if value.dtype.kind == "f"]
        return self.arguments or dict(zip(("self", "other"), floats, strict=False))


def evidence_of(error: LocalError, read: Iterable[str], meaning: Meaning, trace: Trace) -> Evidence:
    """Return the evidence of an operator of a run, with those of its inputs that are no constants."""
    inputs = {one: trace.value(one) for one in read if not one.startswith(CONSTANT)}
    return Evidence(error, inputs, call_of(meaning, error.operator.name, trace.inputs, trace.values))


def call_of(meaning: Meaning, name: str, inputs: Mapping[str, Any], captured: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of an operator by name, as it is recomputed on its inputs: see `Meaning.recompute`.

    Tensors are arrays, floats in float64. Empty for one of several results, and where the program does not tell.
    """
    found: dict[str, Any] = {}

    def look(target: Any, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> Any:
        found.clear()  # that of the operator itself comes last
        found.update(map_aggregate(arguments_by_name(target, args, kwargs), _array))
        return result

    meaning.recompute(name, inputs, captured, substitute=look)
    return found


def _array(value: Any) -> Any:
    if not hasattr(value, "detach"):
        return value
    return (value.double() if value.is_floating_point() else value).numpy()


def nearer(given: np.ndarray, right: np.ndarray, instead: np.ndarray) -> float:
    """Return the share of the error of `given` that is gone where `instead` stands in the place of `right`."""
    before, after = (float(np.sum((given - one) ** 2)) for one in (right, instead))
    return float(1 - np.sqrt(after / before)) if before else 0.0


def explained(
    name: Name, statement: str, evidence: Evidence, instead: np.ndarray, words: str, inside: slice = slice(None)
) -> Mechanism | None:
    """Return a mechanism if `instead` comes much nearer to what was given than what is right does.

    Only the positions `inside` of the last axis are looked at.
    """
    tensors = (evidence.error.given, evidence.error.right, instead)
    if not all(np.isfinite(one).all() for one in tensors):
        return None
    share = nearer(*(np.atleast_1d(one).astype(np.float64)[..., inside] for one in tensors))
    return _of_share(name, statement, words, share)


def _of_share(name: Name, statement: str, words: str, share: float) -> Mechanism | None:
    """Return a mechanism that explains this share of the error; None where that is too little."""
    if not share > MOSTLY:
        return None
    return Mechanism(name, statement, (f"the result is {words}, to {100 * share:.4g} %",), explained=share)


def explained_throughout(statement: str, evidence: Evidence, instead: np.ndarray, words: str) -> Mechanism | None:
    """Return that another operator was computed, if `instead` is what was given wherever that is wrong.

    What is not finite has to be not finite in the same way; of the rest it has to come much nearer than what is right.
    """
    error = evidence.error
    alike = error.given.shape == error.right.shape
    given, right, instead = (np.asarray(one, np.float64) for one in (error.given, error.right, instead))
    odd, other = (np.where(np.isfinite(one), 0.0, one) for one in (given, instead))
    if not np.array_equal(odd, other, equal_nan=True):
        return None
    known = np.isfinite(given) & (np.isfinite(right) if alike else False)
    share = nearer(*(one[known] for one in (given, right, instead))) if alike else 0.0
    if given[known].any():  # beside a right value that is far larger, whatever is small is near to what was given
        share = float(np.minimum(share, nearer(given[known], np.zeros(()), instead[known])))
    if not alike or (error.wrong & ~known).any():  # of what is not finite as it should be, or not of its shape
        largest = float(np.max(np.abs(given - odd), where=np.isfinite(given), initial=0.0))
        share = float(np.allclose(given, instead, rtol=0, atol=NEAR * largest, equal_nan=True))
    return _of_share("operator lowered as another", statement, words, share)
