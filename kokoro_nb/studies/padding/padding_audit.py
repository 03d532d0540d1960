"""Where padding first changes what is valid: one module run in longer and longer buffers, operator by operator."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from kokoro.model import KModel
from torch import Tensor, nn

from kokoro_nb.backends.base import Failure
from kokoro_nb.backends.exported import export_program
from kokoro_nb.errors import InputError
from kokoro_nb.models import stages
from kokoro_nb.models.case import Case
from kokoro_nb.models.patches import EXPORT_PATCHES, patched
from kokoro_nb.models.static_buffers import widened
from kokoro_nb.traces.operators import Operator
from kokoro_nb.traces.parity import of_peak

Widen = Callable[[Mapping[str, Tensor], int], Mapping[str, Tensor]]


@dataclass(frozen=True)
class Leak:
    """One operator whose valid part changes in a longer buffer though nothing that it is computed from does.

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

    def as_dict(self) -> dict[str, Any]:
        """Return the row of a table, with units in its keys."""
        row: dict[str, Any] = {"operator": self.operator, "bucket": self.bucket, "padding": self.padding}
        return {**row, "change (of peak)": self.change, "changed (of the valid elements)": self.changed}


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
        Variance over the whole buffer, over the variance without padding: the valid part is divided by its root. Of
        those channels that are not constant without padding.
    """

    norm: str
    bucket: int
    padding: float
    ratio: np.ndarray

    @property
    def low(self) -> float:
        """What the ratio of one channel in twenty is below, of those that vary; NaN if there is one."""
        return self._of(0.05)

    def as_dict(self) -> dict[str, Any]:
        """Return the row of a table: the spread over the channels that vary."""
        row = {"norm": self.norm, "padding": self.padding, "5 % of channels": self.low}
        return {**row, "median": self._of(0.5), "95 %": self._of(0.95)}

    def _of(self, share: float) -> float:
        return float(np.quantile(self.ratio, share)) if self.ratio.size else float("nan")


def where_it_begins(
    model: KModel, case: Case, frames: int, audited: Sequence[int], measured: Sequence[int], limit: float
) -> tuple[tuple[Leak, ...], tuple[NormVariance, ...]]:
    """Return where padding enters the patched decoder from `har` on, and what its norms divide by.

    Parameters
    ----------
    model : kokoro.model.KModel
        Without patches.
    case : Case
        The utterance.
    frames : int
        How many are valid.
    audited, measured : sequence of int
        Sizes of the buffers, in frames, in which operators are compared and in which the norms are measured.
    limit : float
        See `padding_audit`.
    """
    with torch.no_grad(), patched(model, EXPORT_PATCHES):
        stage = stages.FromHarStage(model.decoder)
        plain = stages.from_har_inputs(model.decoder, case.decoder_inputs(frames))
        leaks = padding_audit(stage, plain, frames, audited, limit)
        return leaks, norm_variances(stage, plain, frames, measured)


def padding_audit(
    module: nn.Module,
    inputs: Mapping[str, Tensor],
    valid: int,
    buckets: Sequence[int],
    limit: float = 1e-5,
    widen: Widen = widened,
) -> tuple[Leak, ...]:
    """Run `module` without padding and in each of `buckets`, in eager, and return the operators where padding enters.

    The valid part of a result is its leading part, as large as the result without padding. An operator that turns its
    input round, or that counts from the end, has none that could be seen; it would be named although it is right. One
    whose result is smaller than without padding is not compared.

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

    Returns
    -------
    tuple of Leak
        By bucket, in the order of execution: the first of a bucket is the first operator that changes in it.

    Raises
    ------
    InputError
        If a bucket is not larger than `valid`, or the module cannot be exported.
    """
    if not buckets or min(buckets) <= valid:
        raise InputError(f"The buckets {list(buckets)} must be larger than the {valid} that are valid.")
    expected: dict[str, np.ndarray] = {}
    _run(module, inputs, lambda name, value: expected.update({name: value.numpy().copy()}))
    found: list[Leak] = []
    for bucket in buckets:
        operators, changes = _changes(module, widen(inputs, bucket), expected, limit)
        found += [
            Leak(operator.name, bucket, 1 - valid / bucket, *changes[operator.name])
            for operator in operators
            if operator.name in changes and not changes.keys() & set(operator.inputs)
        ]
    return tuple(found)


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
            varies = plain[name] != 0
            ratio = variance[varies] / plain[name][varies]
            rows.append(NormVariance(name, bucket, 1 - valid / bucket, ratio))
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


def _run(module: nn.Module, inputs: Mapping[str, Tensor], observe: Callable[[str, Any], None]) -> tuple[Operator, ...]:
    """Run `module` operator by operator, and return its operators in the order of execution."""
    exported = export_program(module, inputs)
    if isinstance(exported, Failure):
        raise InputError(f"The module cannot be run operator by operator: {exported}")
    exported.specification.run({name: tensor.numpy() for name, tensor in inputs.items()}, observe)
    return exported.specification.operators


def _changes(
    module: nn.Module, wide: Mapping[str, Tensor], expected: Mapping[str, np.ndarray], limit: float
) -> tuple[tuple[Operator, ...], dict[str, tuple[float, float]]]:
    """Return the operators of `module` in a buffer, and the largest change and the share changed of those beyond it."""
    found: dict[str, tuple[float, float]] = {}

    def observe(name: str, value: Any) -> None:
        part = _leading(value.numpy(), expected.get(name))
        if part is None:
            return
        change = _difference(expected[name], part, limit)
        if not change[0] <= limit:
            found[name] = change

    return _run(module, wide, observe), found


def _leading(value: np.ndarray, expected: np.ndarray | None) -> np.ndarray | None:
    """Return the part of `value` that stands where `expected` stood without padding; None if there is none."""
    if expected is None or value.ndim != expected.ndim or value.dtype != expected.dtype or not expected.size:
        return None
    if any(size < valid for size, valid in zip(value.shape, expected.shape, strict=True)):
        return None
    return value[tuple(slice(size) for size in expected.shape)]


def _difference(expected: np.ndarray, part: np.ndarray, limit: float) -> tuple[float, float]:
    """Return the largest difference as a share of the peak, and the share of the elements beyond the limit."""
    a, b = (np.atleast_1d(array).astype(np.float64) for array in (expected, part))
    with np.errstate(invalid="ignore"):
        difference = np.abs(b - a)
    difference[a == b] = 0  # an infinity that is the same on both sides
    finite = np.abs(a[np.isfinite(a)])  # the infinities of a mask are no scale
    peak, worst = float(np.max(finite, initial=0)), float(difference.max())
    return of_peak(worst, peak), float((~(difference <= limit * peak)).mean())
