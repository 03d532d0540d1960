"""One subject diagnosed to the end: what is heard, the culprit, the cure applied, and the bundle run both ways."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from kokoro_nb.backends import backend as named_backend
from kokoro_nb.backends.base import Failure, quietly
from kokoro_nb.errors import InputError
from kokoro_nb.findings import Verdict
from kokoro_nb.inspection import diagnose
from kokoro_nb.locate import Diagnosis
from kokoro_nb.locate.remedies import Remedy
from kokoro_nb.run_apart import run_apart
from kokoro_nb.studies.diagnose.diagnosed_subject import DiagnosedSubject
from kokoro_nb.traces.parity import compare

COLUMNS = (
    *("executed", "operator", "line", "effect (of the output's error)"),
    *("local error (of peak)", "inherited error (of peak)", "mechanism"),
)
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
    cure : Remedy or None
        The remedy that brings the output within its limit; None where none was found.
    bundle : Path or None
        Folder that reproduces the culprit alone; None where it could not be written.
    no_bundle : str
        Why not.
    exits : dict
        ``repro.py`` and ``repro.py --mended`` -> exit status; empty without a bundle.
    """

    diagnosis: Diagnosis
    sounds: Mapping[str, np.ndarray]
    cure: Remedy | None = None
    bundle: Path | None = None
    no_bundle: str = ""
    exits: Mapping[str, int | None] = field(default_factory=dict)

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
    def operators(self) -> list[dict[str, Any]]:
        """A row for each operator that is wrong by itself, with what it takes to tell them apart."""
        return [{name: row[name] for name in COLUMNS} for row in self.diagnosis.table()]

    @property
    def mechanisms(self) -> list[dict[str, Any]]:
        """A row for each mechanism that the evidence on the culprit speaks for."""
        found = self.diagnosis.ranked
        return [
            {"mechanism": one.name, "what happened": one.statement, "for": "; ".join(one.evidence)}
            | {"against": "; ".join(one.against), "known defect": one.defect or "", "threads": ", ".join(one.threads)}
            for one in (found[0].mechanisms if found else ())
        ]


def examine(subject: DiagnosedSubject, backend: str, folder: str | Path, artefact: str = "") -> Examination:
    """Diagnose a subject on a backend, try the cures, and write and run the bundle into `folder`.

    Parameters
    ----------
    subject : DiagnosedSubject
        What `diagnosed_subject` returned.
    backend : str
        A runtime of this machine.
    folder : path
        Of the bundle.
    artefact : str
        A file that was exported of the subject, to be looked into in place of an export; empty for none.

    Raises
    ------
    InputError
        If the backend is unknown or cannot run here, or the file is damaged or of another module.
    """
    with quietly():
        found = diagnose(
            *(subject.program, subject.inputs, backend, subject.reference), remedies=True, artefact=artefact or None
        )
    sounds = _sounds(found)
    if subject.patched is not None and found.verdict != "pass" and _passing(found) is None:
        found = replace(found, remedies=(*found.remedies, _patch(subject, backend, found, sounds.get("PyTorch"))))
    cure = _passing(found)
    if cure is not None and cure.outputs:
        sounds |= {"the export, cured": np.asarray(next(iter(cure.outputs.values()))).reshape(-1)}
    try:
        place = found.save_bundle(folder) if found.first is not None else None
        why = "" if place else "no operator was named"
    except InputError as error:
        place, why = None, str(error)
    return Examination(found, sounds, cure, place, why, run_bundle(place) if place else {})


def run_bundle(folder: Path) -> dict[str, int | None]:
    """Run the script of a bundle both ways, in a process of its own, and return both exit statuses; None: no end."""
    forms: dict[str, list[str]] = {"repro.py": [], "repro.py --mended": ["--mended"]}
    return {
        name: run_apart(["repro.py", *options], seconds=600, folder=folder).status for name, options in forms.items()
    }


def _sounds(found: Diagnosis) -> dict[str, np.ndarray]:
    seen = found.investigation
    if seen is None:
        return {}
    first = next(iter(seen.reference.outputs))
    both = {"PyTorch": seen.reference.outputs[first], "the export": seen.history.first[first]}
    return {name: np.asarray(one).reshape(-1) for name, one in both.items()}


def _passing(found: Diagnosis) -> Remedy | None:
    return next((one for one in found.remedies if one.verdict == "pass"), None)


def _patch(subject: DiagnosedSubject, backend: str, found: Diagnosis, right: np.ndarray | None) -> Remedy:
    """Return what the patches that are missing do to the output."""
    name = ", ".join(subject.missing)
    before = float("nan") if found.output is None else found.output.of_peak
    statement = f"It is exported with the patch{'es' if len(subject.missing) > 1 else ''} {name}."
    runtime = named_backend(backend)
    with quietly():
        made = runtime.export(subject.patched, subject.inputs)
        outputs = None if isinstance(made, Failure) else runtime.load(made).run(subject.inputs)
    if outputs is None or right is None:
        reason = str(made) if outputs is None else "PyTorch's output is not known"
        return Remedy("patch", name, statement, before, float("nan"), "unknown", reason)
    error = compare(right, np.asarray(next(iter(outputs.values()))).reshape(-1))
    verdict: Verdict = "pass" if error.finite == 1 and error.of_peak <= LIMIT else "fail"
    return Remedy("patch", name, statement, before, error.of_peak, verdict, outputs=outputs)
