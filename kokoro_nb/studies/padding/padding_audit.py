"""Where padding changes the valid part: the operators whose result does although nothing that they read does."""

from typing import Any

import numpy as np

from kokoro_nb.errors import InputError
from kokoro_nb.traces.statistics import of_peak
from kokoro_nb.traces.trace import Trace

Rows = list[dict[str, Any]]


def leaks(plain: Trace, wide: Trace, limit: float = 1e-5) -> Rows:
    """Return a row for each operator whose valid part changes though nothing that it is computed from does.

    Parameters
    ----------
    plain, wide : Trace
        All operators without padding, and in a buffer.
    limit : float
        Change of the valid part, as a share of its peak, from which it counts.

    Raises
    ------
    InputError
        If the buffer is not larger.
    """
    expected, changes = plain.values, {}
    if all(one.shape == expected[name].shape for name, one in wide.values.items() if name in expected):
        raise InputError("The buffer holds no padding; it must be larger than what is valid.")
    for tap in wide.taps:
        change = _change(expected.get(tap.name), tap.value, limit)
        if not change[0] <= limit:
            changes[tap.name] = change
    return [
        {"operator": tap.name, "change (of peak)": changes[tap.name][0]}
        | {"changed (of the valid elements)": changes[tap.name][1]}
        for tap in wide.taps
        if tap.name in changes and not changes.keys() & set(tap.operator.inputs)
    ]


def variances(plain: Trace, wide: Trace) -> Rows:
    """Return a row for each norm: the variance of what it reads in the buffer over the one without, of its channels.

    A channel that is constant without padding is left out.
    """
    rows = []
    for tap in plain.taps:
        if not tap.name.endswith(".norm:mean"):
            continue
        before, after = (run.values[tap.operator.inputs[0]][0].astype(np.float64).var(-1) for run in (plain, wide))
        low, middle, high = np.quantile(after[before != 0] / before[before != 0], (0.05, 0.5, 0.95))
        rows.append({"norm": tap.module_path, "5 % of channels": low, "median": middle, "95 %": high})
    return sorted(rows, key=lambda row: row["5 % of channels"])


def _change(expected: np.ndarray | None, value: np.ndarray | None, limit: float) -> tuple[float, float]:
    """Return the largest change of the leading part, of its peak, and the share that changes; 0 where there is none."""
    if expected is None or value is None or value.dtype != expected.dtype or value.ndim != expected.ndim:
        return 0.0, 0.0
    if not expected.size or any(size < valid for size, valid in zip(value.shape, expected.shape, strict=True)):
        return 0.0, 0.0
    part = value[tuple(slice(size) for size in expected.shape)]
    a, b = (np.atleast_1d(array).astype(np.float64) for array in (expected, part))
    with np.errstate(invalid="ignore"):
        difference = np.abs(b - a)
    difference[a == b] = 0  # an infinity that is the same on both sides
    peak = float(np.max(np.abs(a[np.isfinite(a)]), initial=0))  # the infinities of a mask are no scale
    return of_peak(float(difference.max()), peak), float((~(difference <= limit * peak)).mean())
