"""Which planted fault turns each check of a notebook red: a check that none does is no check.

A notebook's cells are executed in this process, once as they are and once with each of `FAULTS`. A fault changes what
the measuring functions of `MEASURES` are given as the candidate; limits and references stay. A check that demands a
difference, as a control does, is turned red by ``nothing differs``, the fault of a measure that is given the reference
twice.
"""

import importlib
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from kokoro_nb.reporting.selection import declared_parameters, find_notebooks, read_notebook

SMALL: Mapping[str, Any] = {  # the least that each notebook can be executed with
    "weights": "narrow",
    "frames": 8,
    "backends": ["onnxruntime"],
    "trace_backends": ["onnxruntime"],
    "part_backends": ["onnxruntime"],
    "fault_backends": ["eager"],
    "padded_backends": [],
    "text": "A short one.",
    "text_count": 1,
    "bucket_seconds": [6.0],
    "tokens_buckets": [32],
    "long_count": 3,
    "fault_count": 1,
    "seed": 3,
}
Pair = Callable[[np.ndarray, np.ndarray], np.ndarray]


def _one(y: np.ndarray, value: float) -> np.ndarray:
    changed = y.copy()
    changed.flat[y.size // 2] = value
    return changed


def _dropped(y: np.ndarray) -> np.ndarray:
    """Return it without its last eighth of channels or, of one channel, without an eighth of its samples."""
    changed = y.copy()
    part = changed if y.ndim < 2 else np.moveaxis(changed, -2 if y.shape[-2] > 1 else -1, 0)
    part[-max(1, len(part) // 8) :] = 0
    return changed


FAULTS: Mapping[str, Pair] = {
    "scaled by 1.02": lambda reference, y: (y * 1.02).astype(y.dtype),
    "eight times as loud": lambda reference, y: (y * 8).astype(y.dtype),
    "one step late": lambda reference, y: np.roll(y, 1, axis=-1) if y.ndim else y,
    "a channel dropped": lambda reference, y: _dropped(y) if y.size else y,
    "no phase": lambda reference, y: np.abs(y),
    "NaN in one element": lambda reference, y: _one(y, np.nan) if y.size else y,
    "another's result": lambda reference, y: -reference[..., ::-1] if reference.ndim else -reference,
    "nothing differs": lambda reference, y: reference.astype(y.dtype),
    "one element short": lambda reference, y: y[..., :-1] if y.ndim and y.shape[-1] > 1 else y,
}

# function -> position of the reference and of the candidate; where they are one, what is measured stands alone
MEASURES: Mapping[str, tuple[int, int]] = {
    "kokoro_nb.traces.parity.compare": (0, 1),
    "kokoro_nb.traces.statistics.describe": (0, 0),
    "kokoro_nb.listening.comparison.compare_audio": (0, 1),
    "kokoro_nb.listening.waveform.rms_ratio_db": (0, 1),
    "kokoro_nb.listening.waveform.rms": (0, 0),
    "kokoro_nb.listening.spectrum.log_spectral_distance": (0, 1),
    "kokoro_nb.listening.spectrum.band_energy_ratio_db": (0, 1),
    "kokoro_nb.listening.spectrum.spectral_flatness": (0, 0),
    "kokoro_nb.listening.perceived_quality.perceived_quality": (0, 1),
    "kokoro_nb.listening.spectral_agreement.spectral_agreement": (0, 2),
    "kokoro_nb.listening.joins.short_time_level": (0, 0),
}
_ACTIVE: list[Pair] = []  # the fault that is planted, at most one


@dataclass(frozen=True)
class CheckedBy:
    """One check of a notebook, and what turns it red.

    Attributes
    ----------
    notebook, kind, statement, backend : str
    cell, place : int
        Number of its cell, and which one of its kind it is there.
    verdict : str
        Without a fault.
    killed_by : tuple of str
        Names of the faults that turn it red.
    stopped_by : tuple of str
        Names of the faults with which the notebook stops before it is reached, with an error: nothing passes then.
    """

    notebook: str
    cell: int
    kind: str
    place: int
    statement: str
    backend: str
    verdict: str
    killed_by: tuple[str, ...] = ()
    stopped_by: tuple[str, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        """Return the row of a table."""
        return {
            "notebook": self.notebook,
            "cell": self.cell,
            "kind": self.kind,
            "check": self.statement,
            "backend": self.backend,
            "verdict": self.verdict,
            "turned red by": ", ".join(self.killed_by) or "no fault",
            "stops with": ", ".join(self.stopped_by),
        }


@contextmanager
def planted(fault: str) -> Iterator[None]:
    """Have every measuring function given what the fault makes of its candidate, for the calls inside."""
    _ACTIVE.append(FAULTS[fault])
    try:
        yield
    finally:
        _ACTIVE.clear()


def install() -> None:
    """Put the wrappers in, in every module that holds a function of `MEASURES`; without a fault they change nothing."""
    for name, (first, second) in MEASURES.items():
        module, _, function = name.rpartition(".")
        original = getattr(importlib.import_module(module), function)
        if not hasattr(original, "measures"):
            _replace(original, _measuring(original, first, second))


def check_faults(
    notebook: str, faults: Sequence[str] = tuple(FAULTS), folder: str | Path | None = None
) -> list[CheckedBy]:
    """Execute a notebook as it is and with each of `faults`, at the parameters of `SMALL`.

    Parameters
    ----------
    notebook : str
        Its number or name.
    faults : sequence of str
        Keys of `FAULTS`.
    folder : path, optional
        Where the notebooks are.

    Raises
    ------
    InputError
        If there is no such notebook.
    """
    (path,) = find_notebooks([notebook], folder)
    install()
    found = {key: each for key, each in _executed(path).items() if each.verdict in ("pass", "fail")}
    for fault in faults:
        with planted(fault):
            after = _executed(path)
        for key, each in found.items():
            if key not in after:
                found[key] = replace(each, stopped_by=(*each.stopped_by, fault))
            elif after[key].verdict == "fail" and each.verdict == "pass":
                found[key] = replace(each, killed_by=(*each.killed_by, fault))
    return list(found.values())


def _executed(path: Path) -> dict[tuple[int, str, int], CheckedBy]:
    """Execute the code cells; a cell that raises ends its own statements and no other cell's."""
    notebook = read_notebook(path)
    names: dict[str, Any] = {}
    given = {name: value for name, value in SMALL.items() if name in declared_parameters(notebook)}
    found: dict[tuple[int, str, int], CheckedBy] = {}
    with tempfile.TemporaryDirectory() as folder:
        names |= {"__name__": "__main__", "display": lambda *shown: None}
        for number, cell in enumerate(notebook.cells):
            if cell.cell_type != "code" or ("log.close()" in cell.source and "log.check" not in cell.source):
                continue
            before = len(names["log"].findings) if "log" in names else 0
            try:
                exec(compile(cell.source, f"{path.stem}, cell {number}", "exec"), names)
            except Exception as error:
                names["stopped"] = error
            if "parameters" in cell.get("metadata", {}).get("tags", ()):
                names |= given | {"out_dir": folder}
            if "log" not in names:
                continue
            counts: dict[str, int] = {}
            for finding in names["log"].findings[before:]:
                place = counts[finding.kind] = counts.get(finding.kind, 0) + 1
                about = (finding.statement, finding.backend or "", finding.verdict)
                found[number, finding.kind, place] = CheckedBy(path.stem, number, finding.kind, place, *about)
    return found


def _measuring(original: Callable[..., Any], first: int, second: int) -> Callable[..., Any]:
    inside: list[bool] = []

    def measured(*arguments: Any, **options: Any) -> Any:
        if not _ACTIVE or inside or len(arguments) <= max(first, second):
            return original(*arguments, **options)
        given = list(arguments)
        reference, candidate = np.asarray(given[first]), np.asarray(given[second])
        if np.issubdtype(candidate.dtype, np.floating) and reference.shape == candidate.shape:
            given[second] = _ACTIVE[0](reference, candidate)
        inside.append(True)
        try:
            return original(*given, **options)
        finally:
            inside.pop()

    measured.measures = original  # type: ignore[attr-defined]
    return measured


def _replace(original: Any, wrapped: Any) -> None:
    for name, module in list(sys.modules.items()):
        if name.startswith("kokoro_nb"):
            for attribute, value in list(vars(module).items()):
                if value is original:
                    setattr(module, attribute, wrapped)
