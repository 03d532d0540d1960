"""Artefacts on disk, found again by what is in them; the bases of backends that write files and of their programs."""

import ctypes
import gc
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np

from kokoro_nb.backends.base import META, TAPS, Artifact, Failure, Program, RungError, loadable, quietly
from kokoro_nb.backends.exported import Exported, as_exported
from kokoro_nb.backends.failed_operator import blamed_operator
from kokoro_nb.backends.signature import Arrays, checked
from kokoro_nb.cache_keys import cache_key, package_versions
from kokoro_nb.errors import InputError
from kokoro_nb.storage import atomic, cache_dir, checksums, clear_drafts, json_ready, read_json, write_json
from kokoro_nb.traces.trace import Keep, Operator, Recorder, Taps, Trace, chosen

SCHEMA, _TAPS_SCHEMA = 3, 1
NamedArrays = dict[str, np.ndarray]
Add = Callable[[str, np.ndarray], None]
_HOW = "not at all: this runtime shows no results but the outputs; compile the program with further outputs"
LARGE = 50e6  # bytes of an artefact whose making leaves much memory that is free and still taken


@dataclass(frozen=True)
class FileBackend(ABC):
    """A backend whose export is a file: a subclass says how it is written and loaded, the cache is kept here.

    An artefact lies in ``<folder>/<name>-<key>/`` beside its ``meta.json``, which names the weights, and its
    ``taps.json``, which says where the results of the operators are. The key is a hash
    of the exported program (graph, weights, constants, names), of the backend's options, of the versions of its
    packages and of this package's own code for backends.
    """

    name: str

    file: ClassVar[str]  # name of the model file, or of the folder where the format is one
    packages: ClassVar[tuple[str, ...]]  # distributions whose versions the artefact depends on

    @abstractmethod
    def available(self) -> str | None:
        """Return None if exports can be made and run here, else the reason why not, in one sentence."""

    @abstractmethod
    def write(self, exported: Exported, path: Path, seconds: dict[str, float]) -> Mapping[str, Any] | None:
        """Lower `exported` and write it to `path`, each rung under `on_rung` with `seconds`.

        Returns
        -------
        dict or None
            Where the results of its operators are: see `TapMap`; None where the runtime shows none of them.
        """

    @abstractmethod
    def opened(self, artifact: Artifact, path: Path) -> Program:
        """Load the file of an artefact that can be run here; what is printed meanwhile is not shown."""

    def load(self, artifact: Artifact | Failure) -> Program:
        """Load an artefact: see `base.Backend.load`.

        Raises
        ------
        InputError
            Also if nothing here runs it.
        """
        made = loadable(artifact, self.name)
        reason = self.executes()
        if reason is not None:
            raise InputError(reason)
        assert made.path is not None  # this kind of backend writes files
        with quietly():
            return self.opened(made, made.path)

    def options(self) -> dict[str, Any]:
        """Return what else decides the content of the file."""
        return {}

    def executes(self) -> str | None:
        """Return None if what is exported can be run here, else the reason why not: see `base.Backend.executes`."""
        return None

    def export(self, module: Any, inputs: Arrays, folder: str | Path | None = None) -> Artifact | Failure:
        """Export `module` into `folder`, or take it from the cache there: see `base.Backend.export`."""
        exported = as_exported(module, inputs, self.name)
        if isinstance(exported, Failure):
            return exported
        about = self._about(exported)
        place = artefact_folder(folder) / f"{self.name}-{about['key'][:16]}"
        seconds = {"exported": exported.seconds}
        with _alone(place):
            clear_drafts(place)  # what a process that was killed has left
            meta = _sound(place, about)
            if meta is None:
                operators = exported.specification.operators  # first: a vendor's export may leave symbols pending
                try:
                    with atomic(place) as draft:
                        draft.mkdir()
                        places = self.write(exported, draft / self.file, seconds)
                        write_taps(draft / TAPS, TapMap(operators, places or {}))
                        made = {"weights": _labels(exported.module), "seconds": seconds}
                        write_json(draft / META, {**about, **made, "files": checksums(draft, (META,))})
                except RungError as error:
                    return _placed(error.failure(self.name), exported)
            else:
                seconds = dict(meta["seconds"])
        found = Artifact(self.name, place / self.file, exported.inputs, exported.outputs, seconds, meta is not None)
        if meta is None and found.size > LARGE:
            gc.collect()
            give_back_memory()
        return found

    def _about(self, exported: Exported) -> dict[str, Any]:
        """Return what ``meta.json`` says of an artefact before it is made."""
        about = {
            "schema": SCHEMA,
            "backend": self.name,
            "content": exported.content,
            "options": self.options(),
            "versions": package_versions(("torch", *self.packages)),
            "inputs": [asdict(spec) for spec in exported.inputs],
            "outputs": exported.outputs,
            "supplied by kokoro_nb": exported.supplied,
        }
        return json_ready({**about, "key": cache_key(about, ("backends",))})


@dataclass(frozen=True)
class FileProgram(ABC):
    """A program loaded from an artefact: a subclass says how it computes, and how it shows results of its operators.

    Attributes
    ----------
    artifact : Artifact
        What it was loaded from.
    """

    artifact: Artifact

    how: ClassVar[str] = _HOW

    @abstractmethod
    def computed(self, arrays: NamedArrays) -> Iterable[np.ndarray]:
        """Return the outputs in their order, for inputs that are `signature.checked`; they are copied afterwards."""

    def captured(self, arrays: NamedArrays, places: Mapping[str, Any], add: Add, keep: Keep) -> Iterable[np.ndarray]:
        """Return the outputs as `computed` does, and call `add` with the name and the result of each operator seen.

        Parameters
        ----------
        arrays : dict
            As for `computed`.
        places : mapping
            Name of each requested operator that has a result -> where that is, as `FileBackend.write` said.
        add : callable
            Takes a name of `places` and the array, which may be written over afterwards.
        keep : str
            Whether each array will be kept, see `base.Program.trace`.
        """
        return self.computed(arrays)

    def run(self, inputs: Arrays) -> dict[str, np.ndarray]:
        """Run once: see `base.Program.run`."""
        arrays = checked(inputs, self.artifact.inputs)
        with quietly():
            return self._named(self.computed(arrays))

    def trace(self, inputs: Arrays, taps: Taps = "all", keep: Keep = "stats") -> Trace:
        """Run once, and capture what the runtime shows: see `base.Program.trace`."""
        arrays, known = checked(inputs, self.artifact.inputs), read_taps(self.artifact.folder)
        recorder = Recorder(wanted := chosen(known.operators, taps), keep)
        shapes = {operator.name: operator.shape for operator in wanted}
        places = {name: known.places[name] for name in shapes if name in known.places}

        def add(name: str, value: np.ndarray) -> None:
            recorder.add(name, laid(value, shapes[name]))

        with quietly():
            outputs = self._named(self.captured(arrays, places, add, keep))
        return recorder.trace(self.artifact.backend, arrays, outputs, self.how)

    def _named(self, results: Iterable[np.ndarray]) -> dict[str, np.ndarray]:
        # copies: a program may write its next results to the same memory, and one result may keep a whole session's
        return {name: np.array(result) for name, result in zip(self.artifact.outputs, results, strict=True)}


class TapMap(NamedTuple):
    """The operators that an artefact was made of, and where the runtime has their results.

    Attributes
    ----------
    operators : tuple of Operator
        Of the exported program, in the order of execution.
    places : dict
        Name of an operator -> what the backend calls its result. What is not in it cannot be captured.
    """

    operators: tuple[Operator, ...]
    places: Mapping[str, Any]


def laid(value: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """Return a captured array in the shape of its operator: a runtime shows a view as the memory that it is of.

    One of another number of elements stays as it is: the runtime computed something of another shape.
    """
    return value.reshape(shape) if value.size == np.prod(shape, dtype=int) else value


def write_taps(path: Path, taps: TapMap) -> None:
    """Write ``taps.json``."""
    rows = [list(asdict(operator).values()) for operator in taps.operators]
    write_json(path, {"schema": _TAPS_SCHEMA, "columns": _COLUMNS, "operators": rows, "places": dict(taps.places)})


def read_taps(folder: Path) -> TapMap:
    """Read the ``taps.json`` in the folder of an artefact.

    Raises
    ------
    InputError
        If it is absent or no such file.
    """
    about = read_json(folder / TAPS, "list of operators")
    try:
        if about["schema"] != _TAPS_SCHEMA or about["columns"] != _COLUMNS:
            raise ValueError("it is of another schema")
        operators = tuple(_operator(*row) for row in about["operators"])
        places = dict(about["places"])
    except (TypeError, KeyError, ValueError, OverflowError) as error:
        raise InputError(f"{folder / TAPS} is no list of operators ({error}); export the artefact again.") from error
    return TapMap(operators, places)


_COLUMNS = [field.name for field in fields(Operator)]


def _operator(name: str, op: str, module_path: str, inputs: list[str], shape: list[int], dtype: str) -> Operator:
    return Operator(str(name), str(op), str(module_path), tuple(map(str, inputs)), tuple(map(int, shape)), str(dtype))


def _placed(failure: Failure, exported: Exported) -> Failure:
    """Return a failure with the operator that its error names, if it names one."""
    blamed = blamed_operator(failure, known := exported.specification)
    return replace(failure, place=blamed.name, source=known.source_line(blamed.name)) if blamed else failure


def artefact_folder(folder: str | Path | None) -> Path:
    """Return the folder that artefacts are saved in: the given one, or ``artefacts`` in the cache."""
    if folder is None:
        return cache_dir() / "artefacts"
    if Path(folder).exists() and not Path(folder).is_dir():
        raise InputError(f"{folder} is a file; give a folder to keep artefacts in.")
    return Path(folder)


@contextmanager
def _alone(place: Path) -> Iterator[None]:
    """Have one process at a time make the artefact at `place`; the others wait, and then find it made."""
    from filelock import FileLock

    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        lock = FileLock(place.with_name(f".{place.name}.lock")).acquire()
    except OSError as error:
        why = f"{error.strerror}; choose a folder that can be written"
        raise InputError(f"Cannot write {place.parent}: {why}.") from error
    with lock:
        yield


def _labels(module: Any) -> list[str]:
    """Return the labels of the weights that the parts of `module` carry: one, or none for anybody else's module."""
    return sorted({part.weights_label for part in module.modules() if hasattr(part, "weights_label")})


def _sound(place: Path, about: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return the meta of the artefact at `place` if it is the one wanted and its files are whole, else None."""
    try:
        meta = read_json(place / META, "artefact's meta")
    except InputError:  # absent, cut off or damaged: the artefact is made anew
        return None
    if not isinstance(meta, dict) or {key: meta.get(key) for key in about} != about:
        return None
    return meta if isinstance(meta.get("seconds"), dict) and meta.get("files") == checksums(place, (META,)) else None


def give_back_memory() -> None:
    """Give what this process has freed back to the system, which glibc does not do by itself.

    After an export of 54 million parameters it is 0.7 to 1 GB.
    """
    with suppress(OSError, AttributeError):  # another C library
        ctypes.CDLL("libc.so.6").malloc_trim(0)
