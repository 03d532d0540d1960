"""Where padding first changes what is valid: one module run in longer and longer buffers, operator by operator."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from kokoro_nb.backends.base import Failure
from kokoro_nb.backends.exported import Exported, export_program
from kokoro_nb.errors import InputError
from kokoro_nb.models.padding.widening import widened
from kokoro_nb.traces.operators import INPUT, Operator

Widen = Callable[[Mapping[str, Tensor], int], Mapping[str, Tensor]]


@dataclass(frozen=True)
class Leak:
    """One operator whose valid part is not the same in a longer buffer.

    Attributes
    ----------
    operator : str
        Its name: path of the eager module, the operator, and which call of it there.
    bucket : int
        Size of the buffer, in tokens or frames.
    padding : float
        Share of the buffer that is padding, 0 to 1.
    change : float
        Largest difference of the valid part, as a share of its peak without padding; NaN where there is one.
    changed : float
        Share of the valid elements that differ by more than the limit: near 1 where a statistic moved, near 0 where
        only the last positions read what is behind them.
    """

    operator: str
    bucket: int
    padding: float
    change: float
    changed: float


@dataclass(frozen=True)
class PaddingAudit:
    """What padding does to one module.

    Attributes
    ----------
    first : tuple of Leak
        The first operator that changes, for each bucket in which one does.
    sources : tuple of Leak
        All that change though nothing that they are computed from does: each is a place to be mended.
    outputs : dict
        Bucket -> largest change among the outputs, as a share of the peak; 0 is bit for bit the same.
    uncompared : tuple of str
        Operators that are not the same in every buffer, or have no valid part to be compared.
    """

    first: tuple[Leak, ...]
    sources: tuple[Leak, ...]
    outputs: Mapping[int, float]
    uncompared: tuple[str, ...]


def padding_audit(
    module: nn.Module,
    inputs: Mapping[str, Tensor],
    valid: int,
    buckets: Sequence[int],
    limit: float = 1e-5,
    widen: Widen = widened,
) -> PaddingAudit:
    """Run `module` without padding and in each of `buckets`, in eager, and compare every operator's valid part.

    The valid part of a result is its leading part, as large as the result without padding. An operator that turns its
    input round, or that counts from the end, has none that could be seen; it would be named although it is right.

    Parameters
    ----------
    module : torch.nn.Module
        Patched as it is to be exported.
    inputs : mapping
        Name -> tensor, without padding.
    valid : int
        How many tokens or frames `inputs` has.
    buckets : sequence of int
        Sizes of buffers, in tokens or frames, larger than `valid`.
    limit : float
        What rounding may change, as a share of the peak of an operator's result.
    widen : callable
        Puts the inputs into a buffer of so many tokens or frames.

    Raises
    ------
    InputError
        If a bucket is not larger than `valid`, or the module cannot be exported.
    """
    if not buckets or min(buckets) <= valid:
        raise InputError(f"The buckets {list(buckets)} must be larger than the {valid} that are valid.")
    plain = _exported(module, inputs)
    expected: dict[str, np.ndarray] = {}
    results = _run(plain, inputs, lambda name, value: expected.update({name: value.numpy().copy()}))
    found, outputs, strange = [], {}, set[str]()
    for bucket in buckets:
        wide = widen(inputs, bucket)
        program = _exported(module, wide)
        leaks: dict[str, Leak] = {}
        compared: set[str] = set()

        def observe(name: str, value: Any, leaks: Any = leaks, compared: Any = compared, bucket: int = bucket) -> None:
            part = _leading(value.numpy(), expected.get(name))
            if part is None:
                return
            compared.add(name)
            change, share = _difference(expected[name], part, limit)
            if not change <= limit:
                leaks[name] = Leak(name, bucket, 1 - valid / bucket, change, share)

        made = _run(program, wide, observe)
        operators = program.specification.operators
        strange |= {operator.name for operator in operators} ^ compared | expected.keys() - compared
        found.append([(operator, leaks[operator.name]) for operator in operators if operator.name in leaks])
        outputs[bucket] = max(_output_change(results[name], made[name]) for name in results)
    first = tuple(rows[0][1] for rows in found if rows)
    sources = tuple(leak for rows in found for leak in _sources(rows))
    return PaddingAudit(first, sources, outputs, tuple(sorted(strange)))


@dataclass(frozen=True)
class NormVariance:
    """The variance that one norm divides by, in one buffer.

    Attributes
    ----------
    norm : str
        Path of the module.
    bucket : int
        Size of the buffer.
    padding : float
        Share of it that is padding.
    ratio : numpy.ndarray, shape (channels,), float64
        Variance over the whole buffer, over the variance without padding: the valid part is divided by its root. NaN
        for a channel that is constant without padding.
    """

    norm: str
    bucket: int
    padding: float
    ratio: np.ndarray

    @property
    def low(self) -> float:
        """What the ratio of one channel in twenty is below, of those that vary."""
        return float(np.nanquantile(self.ratio, 0.05))

    def as_dict(self) -> dict[str, Any]:
        """Return the row of a table: the spread over the channels that vary."""
        middle, high = np.nanquantile(self.ratio, (0.5, 0.95)).tolist()
        told = {"norm": self.norm, "padding": self.padding, "5 % of channels": self.low}
        return {**told, "median": middle, "95 %": high}


def norm_variances(
    module: nn.Module, inputs: Mapping[str, Tensor], valid: int, buckets: Sequence[int], widen: Widen = widened
) -> tuple[NormVariance, ...]:
    """Measure what every `InstanceNorm1d` of `module` reads, channel by channel, in each of `buckets`.

    Parameters
    ----------
    module, inputs, valid, buckets, widen
        See `padding_audit`.
    """
    plain = _variances(module, inputs)
    rows = []
    for bucket in buckets:
        for name, variance in _variances(module, widen(inputs, bucket)).items():
            with np.errstate(invalid="ignore", divide="ignore"):
                rows.append(NormVariance(name, bucket, 1 - valid / bucket, variance / plain[name]))
    return tuple(rows)


@torch.no_grad()
def _variances(module: nn.Module, inputs: Mapping[str, Tensor]) -> dict[str, np.ndarray]:
    """Return the variance of each channel that enters each norm, in the order of execution."""
    seen: dict[str, np.ndarray] = {}
    hooks = [
        part.register_forward_pre_hook(
            lambda _module, args, name=name: seen.update({name: args[0][0].double().var(-1, correction=0).numpy()})
        )
        for name, part in module.named_modules()
        if isinstance(part, nn.InstanceNorm1d)
    ]
    try:
        module(**inputs)
    finally:
        for hook in hooks:
            hook.remove()
    return seen


def _exported(module: nn.Module, inputs: Mapping[str, Tensor]) -> Exported:
    exported = export_program(module, inputs)
    if isinstance(exported, Failure):
        raise InputError(f"The module cannot be run operator by operator: {exported}")
    return exported


def _run(
    exported: Exported, inputs: Mapping[str, Tensor], observe: Callable[[str, Any], None]
) -> Mapping[str, np.ndarray]:
    arrays = {name: tensor.numpy() for name, tensor in inputs.items()}
    return exported.specification.run(arrays, observe)


def _leading(value: np.ndarray, expected: np.ndarray | None) -> np.ndarray | None:
    """Return the part of `value` that stands where `expected` stood without padding; None if there is none."""
    if expected is None or value.ndim != expected.ndim or value.dtype != expected.dtype or not expected.size:
        return None
    if any(room < size for room, size in zip(value.shape, expected.shape, strict=True)):
        return None
    return value[tuple(slice(size) for size in expected.shape)]


def _difference(expected: np.ndarray, part: np.ndarray, limit: float) -> tuple[float, float]:
    """Return the largest difference as a share of the peak, and the share of the elements beyond the limit."""
    a, b = (np.atleast_1d(array).astype(np.float64) for array in (expected, part))
    with np.errstate(invalid="ignore"):
        difference = np.abs(b - a)
    difference[a == b] = 0  # an infinity that is the same on both sides
    peak = float(np.max(np.abs(a)))
    worst = float(difference.max())
    change = 0.0 if worst == 0 else worst / peak if peak else float("inf")
    return change, float((~(difference <= limit * peak)).mean())


def _output_change(expected: np.ndarray, found: np.ndarray) -> float:
    part = _leading(found, expected)
    return float("nan") if part is None else _difference(expected, part, 0.0)[0]


def _sources(rows: Sequence[tuple[Operator, Leak]]) -> list[Leak]:
    """Return those that changed while none of their inputs did."""
    bad = {operator.name for operator, _ in rows}
    return [
        leak
        for operator, leak in rows
        if not any(source in bad for source in operator.inputs if not source.startswith(INPUT))
    ]
