"""What every backend offers, and the records that it gives back."""

import logging
import os
import re
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any, Literal, Protocol

import numpy as np

from kokoro_nb.backends.failed_operator import failed_line, failed_operator
from kokoro_nb.backends.signature import Arrays, TensorSpec
from kokoro_nb.errors import InputError, noted
from kokoro_nb.traces.trace import Keep, Taps, Trace

Rung = Literal["patched", "exported", "lowered", "serialised", "loaded", "run"]
META, TAPS = "meta.json", "taps.json"
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")


@dataclass(frozen=True)
class Failure:
    """An export or a run that failed: on which rung of the export ladder, and the exact error.

    Attributes
    ----------
    backend : str
        Name of the backend, or ``torch.export``.
    rung : str
        ``patched``, ``exported``, ``lowered``, ``serialised``, ``loaded`` or ``run``.
    error, message : str
        Class of the exception and its whole text, without terminal colours.
    cause : str
        Class and text of the exception at the root of it, where it was raised from another one.
    log : str
        What was printed meanwhile: native runtimes say there why.
    place, source : str
        The operator that it is about, by its name in the program, and the line of the model that calls it; empty where
        that is not known.
    """

    backend: str
    rung: Rung
    error: str
    message: str
    cause: str = ""
    log: str = ""
    place: str = ""
    source: str = ""

    def __str__(self) -> str:
        words = f"{self.backend} failed when {self.rung}: {self.error}: {_first_line(self.message)}".rstrip(".")
        return f"{words} (from {_first_line(self.cause)})" if self.cause else words

    @property
    def operator(self) -> str:
        """The operator that it is about, as the tool names it; empty where no message says so."""
        return failed_operator(self.cause, self.message, self.log)

    @property
    def line(self) -> str:
        """The line of the model that it is about; empty where no message quotes one."""
        return failed_line(self.message, self.log)

    def as_dict(self) -> dict[str, str]:
        """Return the row of a table."""
        error = _first_line(self.cause) or f"{self.error}: {_first_line(self.message)}"
        about = {"backend": self.backend, "outcome": "not exported", "rung": self.rung, "error": error}
        return about | {"operator": self.place or self.operator, "line of the model": self.source or self.line}


@dataclass(frozen=True)
class Artifact:
    """An exported program on disk (or, for eager, in memory) with what is needed to run it.

    Attributes
    ----------
    backend : str
        Name of the backend that made it.
    path : Path or None
        The model file, alone in its folder but for weights kept beside it and ``meta.json``; None for eager.
    inputs : tuple of TensorSpec
        Name, shape and dtype of each input, in order.
    outputs : tuple of str
        Names, in order.
    seconds : dict
        Wall time of each rung of the export, as measured when it was made.
    cached : bool
        Whether an earlier export of the same content was used.
    program : Program or None
        The program itself, for eager only.
    """

    backend: str
    path: Path | None
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[str, ...]
    seconds: Mapping[str, float] = field(default_factory=dict)
    cached: bool = False
    program: Any = None

    @property
    def folder(self) -> Path:
        """The folder that holds the model file and what belongs to it.

        Raises
        ------
        InputError
            If the artefact is in memory only.
        """
        if self.path is None:
            raise InputError(f"The artefact of {self.backend} is in memory, and has no folder.")
        return self.path.parent

    @property
    def size(self) -> int:
        """Bytes on disk, without what this package notes beside the model; 0 for eager."""
        if self.path is None:
            return 0
        return sum(p.stat().st_size for p in self.path.parent.rglob("*") if p.is_file() and p.name not in (META, TAPS))


class Runnable(Protocol):
    """What can be run."""

    def run(self, inputs: Arrays) -> dict[str, np.ndarray]:
        """Run once; the inputs by name in, the outputs by name out, as NumPy arrays of their own.

        Raises
        ------
        InputError
            If a name is unknown or missing, or a shape or dtype is not the one that it was exported for.
        """


class Program(Runnable, Protocol):
    """A loaded program."""

    def trace(self, inputs: Arrays, taps: Taps = "all", keep: Keep = "stats") -> Trace:
        """Run once and capture the results of operators on the way.

        Parameters
        ----------
        inputs : mapping
            As for `run`.
        taps : str, sequence of str or callable
            ``"all"``, names of operators, or a predicate on an `Operator`.
        keep : str
            ``stats``: of each result its statistics; ``full``: the tensor as well.

        Returns
        -------
        Trace
            What the runtime does not show is in its `missing`.

        Raises
        ------
        InputError
            As for `run`, and if an operator is unknown.
        """


class Backend(Protocol):
    """A runtime and the way to it."""

    @property
    def name(self) -> str:
        """Key in the registry."""

    def available(self) -> str | None:
        """Return None if exports can be made here, else the reason why not, in one sentence."""

    def executes(self) -> str | None:
        """Return None if what is exported can be run here, else the reason why not, in one sentence.

        An artefact for another processor or system is built, and not executed here.
        """

    def export(self, module: Any, inputs: Arrays, folder: str | Path | None = None) -> Artifact | Failure:
        """Export `module` for inputs of these shapes into `folder`, or take it from the cache there.

        Parameters
        ----------
        module : torch.nn.Module, Exported or Failure
            The module, or what `exported.export_program` made of it: then the work is shared between backends.
        inputs : mapping
            Name of a parameter of its forward -> example tensor.
        folder : path, optional
            Where artefacts are kept; ``artefacts`` in the cache by default.

        Raises
        ------
        InputError
            If the inputs do not fit the module, the module keeps state between calls, or the folder cannot be written.
        """

    def load(self, artifact: Artifact | Failure) -> Program:
        """Load an artefact.

        Raises
        ------
        InputError
            If it is a `Failure`, was made by another backend, or is no longer there.
        """


class RungError(Exception):
    """An export that failed: knows the rung, and the exception behind it as ``__cause__``."""

    def __init__(self, rung: Rung):
        super().__init__(rung)
        self.rung = rung

    def failure(self, backend: str) -> Failure:
        """Return the record of it."""
        error = root = self.__cause__
        while root is not None and root.__cause__ is not None:
            root = root.__cause__
        cause = "" if root is error else f"{type(root).__name__}: {root}"
        log = "\n".join(getattr(error, "__notes__", ()))
        plain = (_COLOUR.sub("", text) for text in (str(error), cause, log))
        return Failure(backend, self.rung, type(error).__name__, *plain)


def _first_line(text: str) -> str:
    return next((line for line in text.splitlines() if line.strip()), "")


@contextmanager
def on_rung(rung: Rung, seconds: dict[str, float] | None = None) -> Iterator[None]:
    """Turn any exception inside into a `RungError` that knows the rung; without any, note the time in `seconds`."""
    start = time.perf_counter()
    try:
        yield
    except Exception as error:
        raise RungError(rung) from error
    if seconds is not None:
        seconds[rung] = time.perf_counter() - start


@contextmanager
def quietly() -> Iterator[None]:
    """Keep what exporters and runtimes print off the screen; if an error is raised, add it to the error as a note.

    Native code writes to file descriptor 2 past Python's `sys.stderr`, so that is turned aside as well.
    """
    root, disabled = logging.root, logging.root.manager.disable
    level, handlers = root.level, list(root.handlers)
    sys.stderr.flush()
    standard_error = os.dup(2)
    with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace", buffering=1) as sink:
        try:
            os.dup2(sink.fileno(), 2)
            logging.disable(logging.WARNING)
            # a stream that outlives this block: a logger that is set up inside keeps it
            stream = open(2, "w", encoding="utf-8", errors="replace", buffering=1, closefd=False)  # noqa: SIM115
            with redirect_stdout(stream), redirect_stderr(stream), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                yield
        except Exception as error:
            sink.seek(0)
            noted(error, sink.read().strip())
            raise
        finally:
            logging.disable(disabled)
            root.setLevel(level)  # exporters set their own level, and hang up handlers
            root.handlers[:] = handlers
            os.dup2(standard_error, 2)
            os.close(standard_error)


def import_failure(runtime: str, extra: str, *modules: str) -> str | None:
    """Return None if `modules` can be imported, else the sentence that says why not and which extra brings them."""
    try:
        with quietly():
            for module in modules:
                import_module(module)
    except (ImportError, OSError) as error:
        return f"{runtime} cannot be used here ({error}); install it with pip install 'kokoro_nb[{extra}]'."
    return None


def absence(backend: Backend) -> str | None:
    """Return why `backend` cannot export here and run what it exports; None if it can."""
    return backend.available() or backend.executes()


def running(backend: Backend) -> Backend:
    """Return `backend` if it can export here and run what it exports.

    Raises
    ------
    InputError
        If it cannot.
    """
    absent = absence(backend)
    if absent:
        raise InputError(f"{backend.name} cannot run here: {absent}")
    return backend


def loadable(artifact: Artifact | Failure, backend: str) -> Artifact:
    """Return `artifact` if `backend` can load it.

    Raises
    ------
    InputError
        If it is a `Failure`, was made by another backend, or its file is gone.
    """
    if isinstance(artifact, Failure):
        raise InputError(f"There is nothing to load, for {artifact}")
    if artifact.backend != backend:
        raise InputError(f"{backend} cannot load what {artifact.backend} exported; load it with {artifact.backend}.")
    if artifact.path is not None and not artifact.path.exists():
        raise InputError(f"The artefact {artifact.path} is no longer there; export it again.")
    return artifact
