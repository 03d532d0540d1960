"""What a script that shows a defect consists of beside its case: it runs a form, compares it and says what came out."""

import re
import sys
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Figure:
    """How far what was seen is from what is right.

    Attributes
    ----------
    wrong : float
        Share of the elements that are wrong, 0 to 1: a number further off than the limit, NaN or an infinity where
        something else is expected, or something else where those are. 1 if the shape differs or an error was raised.
    error : float
        Largest difference between finite numbers over the largest one expected, both finite; NaN if there are none.
    seen, expected : str
        The worst element, or the error.
    """

    wrong: float
    error: float
    seen: str
    expected: str


def measure(case: Any, run: Callable[..., Any] | None, mended: bool) -> Figure:
    """Run one form of a case on its inputs and compare it with what is right.

    Parameters
    ----------
    case : Defect or FindingCase
        Its ``expected(inputs)`` and ``seen(inputs, mended, run)`` return arrays; it has ``inputs`` (name -> tensor), a
        ``limit`` and an ``error``.
    run : callable or None
        Runs a module on the runtime in question.
    mended : bool
        Which form.

    Raises
    ------
    Exception
        Whatever the case raises, unless it is the error that the defect consists of.
    """
    expected = case.expected(case.inputs)
    try:
        seen = case.seen(case.inputs, mended, run)
    except Exception as error:
        known = re.search(case.error, f"{type(error).__name__}: {error}") if case.error else None
        if known is None:
            raise
        return Figure(1.0, float("nan"), known[0], "a result")
    return compare(seen, expected, case.limit)


def compare(seen: Any, expected: Any, limit: float) -> Figure:
    """Compare two arrays of numbers, NaN and infinities included; `limit` is of the peak of what is expected."""
    a, b = np.asarray(seen, np.float64), np.asarray(expected, np.float64)
    if a.shape != b.shape:
        return Figure(1.0, float("nan"), f"shape {a.shape}", f"shape {b.shape}")
    known = np.isfinite(b)
    peak = np.abs(b[known]).max(initial=0) or 1.0
    with np.errstate(all="ignore"):
        gaps = np.abs(a - b) / peak
    gaps = np.where((a == b) | (np.isnan(a) & np.isnan(b)), 0.0, gaps)
    wrong = ~(gaps <= limit)  # NaN is within no limit
    both = known & np.isfinite(a)
    worst = np.unravel_index(np.argmax(np.where(np.isnan(gaps), np.inf, gaps)), a.shape)
    error = float(gaps[both].max()) if both.any() else float("nan")
    return Figure(float(wrong.mean()), error, f"{a[worst]:.6g}", f"{b[worst]:.6g}")


def judge(case: Any, run: Callable[..., Any] | None) -> int:
    """Measure the form that the command line asks for, print the figure, and return the exit status.

    It is 1 while the defect is there, 0 where it is gone, and 2 where the case itself breaks.
    """
    try:
        figure = measure(case, run, "--mended" in sys.argv)
    except Exception:
        traceback.print_exc()
        return 2
    print(f"{100 * figure.wrong:.4g} % wrong\nexpected: {figure.expected}\nactual:   {figure.seen}")
    print("The defect is there." if figure.wrong else "The defect is gone.")
    return int(figure.wrong > 0)
