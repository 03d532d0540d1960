"""One subject diagnosed to the end: what is heard, the culprit, the cure applied, and the bundle run both ways."""

import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from kokoro_nb.backends import backend as named_backend
from kokoro_nb.backends.base import Failure, quietly
from kokoro_nb.errors import InputError
from kokoro_nb.locate import Diagnosis, diagnose
from kokoro_nb.locate.remedy import Remedy
from kokoro_nb.studies.diagnose_export.diagnosed_subject import DiagnosedSubject
from kokoro_nb.traces.parity import compare

LIMIT = 1e-3  # of the peak: with every patch a decoder comes within it on every runtime, in notebook 15 too


@dataclass(frozen=True, eq=False)
class Examination:
    """What was found out about one export.

    Attributes
    ----------
    diagnosis : Diagnosis
        With the remedy that was tried.
    sounds : dict
        ``PyTorch``, ``the export`` and, where a cure was tried, ``the export, cured`` -> first output, flattened.
    cured : Parity or None
        The output of the cured export against PyTorch; None where no cure was tried.
    bundle : Path or None
        Folder that reproduces the culprit alone; None where it could not be written.
    no_bundle : str
        Why not.
    exits : dict
        ``repro.py`` and ``repro.py --mended`` -> exit status; empty without a bundle.
    limit : float
        What is allowed of the cured output, of the peak.
    """

    diagnosis: Diagnosis
    sounds: Mapping[str, np.ndarray]
    cured: Any = None
    bundle: Path | None = None
    no_bundle: str = ""
    exits: Mapping[str, int] = field(default_factory=dict)
    limit: float = LIMIT

    @property
    def expected_exits(self) -> dict[str, int]:
        """The exit statuses that the bundle promises; none without a bundle."""
        return dict(zip(self.exits, (1, 0), strict=True)) if self.exits else {}

    @property
    def summary(self) -> list[dict[str, Any]]:
        """A row for each version that can be heard: share of finite samples, and the largest one."""
        rows = []
        for name, sound in self.sounds.items():
            finite = np.isfinite(sound)
            peak = float(np.abs(sound[finite]).max()) if finite.any() else float("nan")
            rows.append({"version": name, "finite (%)": 100 * float(finite.mean()), "peak": peak})
        return rows

    @property
    def mechanisms(self) -> list[dict[str, Any]]:
        """A row for each mechanism that the evidence on the culprit speaks for."""
        found = self.diagnosis.ranked
        return [
            {"mechanism": one.name, "what happened": one.statement, "for": "; ".join(one.evidence)}
            | {"against": "; ".join(one.against), "known defect": one.defect or "", "threads": ", ".join(one.threads)}
            for one in (found[0].mechanisms if found else ())
        ]


def examine(subject: DiagnosedSubject, backend: str, folder: str | Path) -> Examination:
    """Diagnose a subject on a backend, try the cure, and write and run the bundle into `folder`.

    Raises
    ------
    InputError
        If the backend is unknown or cannot run here.
    """
    with quietly():
        found = diagnose(subject.program, subject.inputs, backend)
    sounds = _sounds(found)
    cured = None
    if subject.patched is not None and found.verdict != "pass":
        cured, sound = _cure(subject, backend, sounds.get("PyTorch"))
        found = replace(found, remedies=(_remedy(subject, found, cured), *found.remedies))
        sounds |= {} if sound is None else {"the export, cured": sound}
    try:
        place = found.bundle(folder) if found.first is not None else None
        why = "" if place else "no operator was named"
    except InputError as error:
        place, why = None, str(error)
    return Examination(found, sounds, cured, place, why, run_bundle(place) if place else {})


def run_bundle(folder: Path) -> dict[str, int]:
    """Run the script of a bundle both ways, in a process of its own, and return both exit statuses."""
    forms: dict[str, list[str]] = {"repro.py": [], "repro.py --mended": ["--mended"]}
    return {
        name: subprocess.run(
            [sys.executable, "repro.py", *options], cwd=folder, capture_output=True, check=False, timeout=600
        ).returncode
        for name, options in forms.items()
    }


def _sounds(found: Diagnosis) -> dict[str, np.ndarray]:
    seen = found.investigation
    if seen is None:
        return {}
    first = next(iter(seen.reference.outputs))
    both = {"PyTorch": seen.reference.outputs[first], "the export": seen.history.first[first]}
    return {name: np.asarray(one).reshape(-1) for name, one in both.items()}


def _cure(subject: DiagnosedSubject, backend: str, right: np.ndarray | None) -> tuple[Any, np.ndarray | None]:
    """Return how far the patched export is from PyTorch, and its output; None each where that cannot be measured."""
    runtime = named_backend(backend)
    with quietly():
        made = runtime.export(subject.patched, subject.inputs)
        if isinstance(made, Failure) or right is None:
            return None, None
        outputs = runtime.load(made).run(subject.inputs)
    sound = np.asarray(next(iter(outputs.values()))).reshape(-1)
    return compare(right, sound), sound


def _remedy(subject: DiagnosedSubject, found: Diagnosis, cured: Any) -> Remedy:
    name = ", ".join(subject.missing)
    before = float("nan") if found.output is None else found.output.of_peak
    statement = f"Export with the patch{'es' if len(subject.missing) > 1 else ''} {name}."
    if cured is None:
        reason = "the patched export could not be compared with PyTorch"
        return Remedy("patch", name, statement, before, float("nan"), "unknown", reason)
    right = cured.finite == 1 and cured.of_peak <= LIMIT
    return Remedy("patch", name, statement, before, cured.of_peak, "pass" if right else "fail")
