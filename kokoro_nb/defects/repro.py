"""Run the case beside this file: it exits with 1 while the defect is there, and with 0 when it is gone.

    python repro.py             the form that fails
    python repro.py --mended    the form that is right, by the same limit

It exits with 2 if the case itself breaks, and with 3, and a sentence, where a package that it needs is not installed.
It needs nothing but torch, numpy, safetensors and the packages that the case names.
"""

import argparse
import importlib.metadata
import re
import runpy
import sys
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import safe_open

CASE, RUNNER, INPUTS = "case.py", "runner.py", "inputs.safetensors"
ORDER = "order"  # key of the names in the file's metadata: safetensors sorts them


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


def measure(case: Any, run: Callable[..., Any] | None, inputs: Mapping[str, torch.Tensor], mended: bool) -> Figure:
    """Run one form of a case and compare it with what is right.

    Parameters
    ----------
    case : Defect or FindingCase
        Its ``expected(inputs)`` and ``seen(inputs, mended, run)`` return arrays; it has a ``limit`` and an ``error``.
    run : callable or None
        Runs a module on the runtime in question.
    inputs : mapping
        Name -> tensor.
    mended : bool
        Which form.

    Raises
    ------
    Exception
        Whatever the case raises, unless it is the error that the defect consists of.
    """
    expected = case.expected(inputs)
    try:
        seen = case.seen(inputs, mended, run)
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


def measure_folder(folder: Path, mended: bool) -> Figure:
    """Measure a form of the case whose files are in a folder: see `measure`."""
    case = runpy.run_path(str(folder / CASE))["case"]
    run = runpy.run_path(str(folder / RUNNER))["run"] if case.runner else None
    return measure(case, run, _inputs(folder / INPUTS), mended)


def absent(packages: tuple[str, ...]) -> str:
    """Return the sentence about the first of `packages` (distributions) that is not installed, or an empty one."""
    for name in packages:
        try:
            importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            return f"{name} is not installed; install it with pip install {name}."
    return ""


def main(arguments: list[str] | None = None) -> int:
    """Measure the case in this folder, print what came out, and return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mended", action="store_true", help="run the form that is right")
    mended = parser.parse_args(arguments).mended
    folder = Path(__file__).parent
    case = runpy.run_path(str(folder / CASE))["case"]
    reason = absent(case.packages)
    if reason:
        print(reason)
        return 3
    try:
        figure = measure_folder(folder, mended)
    except Exception:
        traceback.print_exc()
        return 2
    there = "there" if figure.wrong else "gone"
    print(f"{there}: {100 * figure.wrong:.4g} % wrong, error {figure.error:.3g} of the peak (limit {case.limit:g})")
    print(f"seen {figure.seen}, expected {figure.expected}")
    return 1 if figure.wrong else 0


def _inputs(path: Path) -> dict[str, torch.Tensor]:
    with safe_open(path, "pt") as file:
        return {name: file.get_tensor(name) for name in file.metadata()[ORDER].split(",")}


if __name__ == "__main__":
    sys.exit(main())
