"""What a notebook writes its results into: checks, figures, audio and tables, kept beside its executed copy."""

import json
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from importlib import import_module
from pathlib import Path
from typing import Any

from kokoro_nb.errors import ChecksError, InputError
from kokoro_nb.findings import Finding, failure_line, write_findings
from kokoro_nb.listening.waveform import write_wav
from kokoro_nb.markup import Fragment, table
from kokoro_nb.reporting.fragments import CheckLog, board, checks, displayed
from kokoro_nb.reporting.runs import now
from kokoro_nb.reporting.side_by_side import mono, side_by_side
from kokoro_nb.reporting.style import Picture, save
from kokoro_nb.reporting.versions import commit, outputs_folder, versions
from kokoro_nb.storage import json_ready

FINDINGS = "findings.json"
OUT_DIR = "KOKORO_NB_OUT_DIR"  # tells the kernel of a run where its results go
BACKENDS = ("backend", "backends", "delegates", "accelerators")  # a parameter of that name, or ending with it
STUDIES = ("kokoro_nb.studies.", "kokoro_nb.benchmarks.")  # whose results study_drawings draws
NOTEBOOK = re.compile(r"\w[\w.-]*")


class Logbook(CheckLog):
    """The record of one execution of a notebook; ``findings.json`` is whole on disk after every entry.

    A check that fails does not stop the notebook: it is recorded and shown, and `close` raises for all of them.

    Parameters
    ----------
    notebook : str
        Its name, ``03_decoder_nan``.
    weights : str
        Label of the weights that everything in it is measured on.
    parameters : mapping
        The values of the notebook's parameters.
    out_dir : path, optional
        Where everything is written; by default the results folder of the run, and outside of one
        ``outputs/notebooks/<notebook>`` of the project that the working directory lies in, or of that directory itself.

    Raises
    ------
    InputError
        If the name is no file name, a parameter cannot be written as JSON or names an unknown backend, or the folder
        cannot be written.
    """

    def __init__(
        self, notebook: str, weights: str, parameters: Mapping[str, Any], out_dir: str | Path | None = None
    ) -> None:
        if not NOTEBOOK.fullmatch(notebook):
            raise InputError(f"'{notebook}' is no name for a notebook; use letters, digits, '_', '-' and '.'.")
        default = os.environ.get(OUT_DIR) or outputs_folder() / "notebooks" / notebook
        super().__init__(weights, Path(default if out_dir is None else out_dir).resolve())
        self.notebook = notebook
        self._about: dict[str, Any] = {"notebook": notebook, "weights": weights, "parameters": _plain(parameters)}
        self._about |= {"versions": versions(), "commit": commit(), "started": now(), "finished": None}
        self._about |= {"figures": [], "audio": []}
        self._labels: dict[str, str] = {}
        self._save()

    def answer(self, text: str, picture: Picture | None = None) -> Fragment:
        """Record the answer to the question of the notebook, with which its page begins, and return it for the cell.

        Parameters
        ----------
        text : str
            One to three sentences with the figures that carry it, composed from the results.
        picture : Picture, optional
            What `figure` or `show` returned, to stand beside it; by default the first figure of the notebook.

        Raises
        ------
        InputError
            If the text is empty.
        """
        if not text.strip():
            raise InputError("The answer is empty; say in one to three sentences what was found.")
        about = {} if picture is None else {"picture": picture.path.name, "alt": picture.alt}
        self._about["answer"] = {"text": text, **about}
        self._save()
        return Fragment(f'<p class="knb knb-answer">{escape(text)}</p>', text)

    def record(self, result: Any, subject: str = "The program", parity: float | None = None) -> None:
        """Record the checks that every exported program has to pass, those that its type of result can answer.

        Parameters
        ----------
        result : Row, Investigation, Diagnosis or Failure, or a sequence or mapping of these
            A row of `survey`: that it runs, is finite, repeats itself and agrees with eager float32; an absent runtime
            is one SKIP with its reason, and so is the run of what is built here for another machine. An investigation:
            that it runs, that tapping and earlier calls leave its output as it was, and that no operator is wrong; of
            a diagnosis by tracing the same, and what is wrong goes to the first page of the report.
        subject : str
            What was exported, as the start of a sentence: ``"The whole decoder"``.
        parity : float or None
            Largest difference to eager float32 as a share of the peak; None where the numbers are not well conditioned.

        Raises
        ------
        InputError
            If there are no checks for a result of its type.
        """
        from kokoro_nb.reporting.record_checks import record_checks

        results = result.values() if isinstance(result, Mapping) else result
        for one in results if isinstance(results, Iterable) else (result,):
            record_checks(one, self, subject, parity)

    def figure(self, fig: Any, name: str, alt: str = "") -> Picture:
        """Save a matplotlib figure as ``<name>.png`` and return it for the cell to show.

        Parameters
        ----------
        fig : matplotlib.figure.Figure
            It is closed in pyplot, so that it is not shown a second time.
        name : str
            File name without its ending.
        alt : str, optional
            What it shows, for those who do not see it; `name` in words by default.
        """
        path = self.out_dir / f"{self._file_name(name, '.png')}.png"
        picture = save(fig, path, alt or name.replace("_", " "), self.weights)
        self._add("figures", {"name": name, "path": path.name})
        return picture

    def audio(self, label: str, y: Any, sr: int) -> Fragment:
        """Save audio as a float WAV file and return a player for the cell to show.

        Parameters
        ----------
        label : str
            What is heard; the file is named after it.
        y : array or torch.Tensor, shape=(samples,), float
            Audio, full scale at 1; neither clipped nor cleaned in the file.
        sr : int
            Sampling rate in Hz.

        Raises
        ------
        InputError
            If it is not one channel of floating-point audio.
        """
        return self.side_by_side({label: y}, sr, label)

    def side_by_side(
        self, versions: Mapping[str, Any], sr: int, title: str = "Versions side by side", reference: str | None = None
    ) -> Fragment:
        """Save each version of one utterance as a float WAV file and return them as one figure for the cell to show.

        Parameters and errors are those of `kokoro_nb.reporting.side_by_side.side_by_side`.
        """
        shown = side_by_side(versions, sr, reference, title)
        for label, y in versions.items():
            samples = mono(y, sr)
            path = write_wav(self.out_dir / f"{self._file_name(label, '.wav')}.wav", samples, sr)
            self._add("audio", {"label": label, "path": path.name, "sr": int(sr), "samples": samples.size})
        return shown

    def table(self, rows: Sequence[Mapping[str, Any]], caption: str = "") -> Fragment:
        """Return a table of `rows` for the cell to show."""
        return table(rows, caption)

    def show(self, result: Any, name: str = "", caption: str = "", alt: str = "", weights: str = "") -> Any:
        """Return what stands for `result` for the cell to show: its figure, table or player, found by its type.

        Parameters
        ----------
        result : object
            Rows, a matplotlib figure, or any result that has a drawing: see `shown`.
        name : str, optional
            File name of the figure, without its ending; the type's name by default.
        caption : str, optional
            Heading, in place of the one that the drawing has by itself.
        alt : str, optional
            As for `figure`.
        weights : str, optional
            Label of the weights that it was measured on; those of the logbook by default.

        What failed or is absent, alone or among other results, is a row of a table. A drawing that cannot be made of a
        result is recorded as ``unknown``, with the reason, and stops nothing.

        Raises
        ------
        InputError
            If there is no drawing for results of its type.
        """
        from matplotlib.figure import Figure

        from kokoro_nb.reporting.drawings import NoDrawingError

        result, absent = without_failures(result)
        if absent:
            rows = table(absent, "" if result else caption)
            if not result:
                return rows
            displayed(rows)
        try:
            made = shown(result, weights or self.weights, caption)
        except NoDrawingError:
            raise
        except Exception as error:  # of whatever library draws it: the result is what matters, and it may be damaged
            what = f"'{name or type(result).__name__}' can be drawn."
            reason = f"{type(error).__name__}: {error}"
            return self.note(Finding("drawing", "unknown", what, self.weights, reason=reason))
        return self.figure(made, name or type(result).__name__.lower(), alt) if isinstance(made, Figure) else made

    def close(self) -> "Logbook":
        """Record that the notebook reached its end, and return the logbook for the cell to show its verdicts.

        Raises
        ------
        ChecksError
            If a check failed, with the statement and the figure of each; the verdicts are shown and saved by then.
        """
        self._about["finished"] = now()
        self._save()
        made = checks(self.findings)
        failed = [finding for finding in made if finding.verdict == "fail"]
        if failed:
            displayed(self)
            lines = "\n".join(f"- {failure_line(finding)}" for finding in failed)
            raise ChecksError(f"{len(failed)} of {len(made)} checks failed:\n{lines}")
        return self

    def _repr_html_(self) -> str:
        return board(self.findings, rows=False)._repr_html_()

    def __repr__(self) -> str:
        return repr(board(self.findings))

    def _save(self) -> None:
        write_findings(self.out_dir / FINDINGS, self.findings, **self._about)

    def _add(self, kind: str, entry: dict[str, Any]) -> None:
        entries = [old for old in self._about[kind] if old["path"] != entry["path"]]  # a cell may be executed again
        self._about[kind] = [*entries, entry]
        self._save()

    def _file_name(self, label: str, ending: str) -> str:
        name = re.sub(r"[^\w.-]+", "_", label).strip("._")
        if not name:
            raise InputError(f"No file can be named after '{label}'; use letters or digits.")
        known = self._labels.setdefault((name + ending).lower(), label)
        if known != label:
            raise InputError(f"'{label}' and '{known}' would share the file {name}{ending}; rename one.")
        return name


def _plain(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parameters once each is known to be plain, and the backends among them to be there."""
    for name, value in parameters.items():
        try:
            json.dumps(json_ready(value), allow_nan=False)
        except (TypeError, ValueError) as error:
            why = f"cannot be written as JSON ({error})"
            raise InputError(f"The parameter '{name}' {why}; use plain values.") from error
        if name.rpartition("_")[2] in BACKENDS:
            from kokoro_nb.backends import backend

            given = [value] if isinstance(value, str) else value
            for text in given if isinstance(given, list | tuple) else ():
                backend(text)
    return dict(parameters)


def shown(result: Any, label: str = "", caption: str = "") -> Any:
    """Return what stands for `result`: a matplotlib figure, a `Fragment`, or what a notebook shows by itself.

    Parameters
    ----------
    result : object
        A result with a drawing of its own; a list of results, or a mapping of names to results, all of one type; a
        list of rows (mappings of column to value), which becomes a table; a mapping of names to such rows, which
        becomes a heat map. What has no drawing and can be a row, through ``as_dict`` or as a dataclass of plain
        values, becomes a table. Figures, fragments and whatever IPython shows by itself are returned as they are.
    label : str
        Label of the weights that it was measured on.
    caption : str
        Heading; each drawing has one of its own.

    Raises
    ------
    NoDrawingError
        If nothing is registered for the type, and it is no row.
    """
    from kokoro_nb.reporting.drawings import drawn, drawn_together

    members = list(result.values()) if isinstance(result, Mapping) else result
    several = isinstance(members, list | tuple)
    if result is None or (several and not members):
        return table([], caption)
    first = members[0] if several and members else result
    if any(kind.__module__.startswith(STUDIES) for kind in type(first).__mro__):
        import_module("kokoro_nb.reporting.study_drawings")
    return drawn_together(first, result, label, caption) if several else drawn(result, label, caption)


def without_failures(result: Any) -> tuple[Any, list[dict[str, Any]]]:
    """Return `result` without what failed or is absent in it, and a row for each of these."""
    from kokoro_nb.backends.base import Failure
    from kokoro_nb.reporting.drawings import is_plain

    if isinstance(result, Failure):
        return None, [result.as_dict()]
    if not isinstance(result, Mapping | list | tuple):
        return result, []
    pairs: Any = result.items() if isinstance(result, Mapping) else enumerate(result)
    members = dict(pairs)
    failed = {name: one for name, one in members.items() if one is None or isinstance(one, Failure)}
    if not failed or (isinstance(result, Mapping) and all(map(is_plain, members.values()))):
        return result, []
    rows = [{"name": name} | ({"outcome": "absent"} if one is None else one.as_dict()) for name, one in failed.items()]
    left = {name: one for name, one in members.items() if name not in failed}
    return (left if isinstance(result, Mapping) else [*left.values()]), rows
