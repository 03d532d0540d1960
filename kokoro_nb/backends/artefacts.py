"""Artefacts on disk, found again by what is in them; the base of every backend that writes a file."""

import ctypes
import gc
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, ClassVar

from kokoro_nb.backends.base import META, Artifact, Failure, Program, RungError, loadable
from kokoro_nb.backends.exported import Exported, as_exported
from kokoro_nb.backends.failed_operator import blamed_operator
from kokoro_nb.backends.signature import Arrays
from kokoro_nb.backends.taps import TAPS, TapMap, write_taps
from kokoro_nb.cache_keys import cache_key, package_versions
from kokoro_nb.errors import InputError
from kokoro_nb.storage import atomic, cache_dir, checksums, clear_drafts, json_ready, read_json, write_json

SCHEMA = 3
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
            Where the results of its operators are: see `taps.TapMap`; None where the runtime shows none of them.
        """

    @abstractmethod
    def load(self, artifact: Artifact | Failure) -> Program:
        """Load an artefact."""

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
                        made = {
                            "weights": _labels(exported.module),
                            "seconds": seconds,
                            "files": checksums(draft, (META,)),
                        }
                        write_json(draft / META, {**about, **made})
                except RungError as error:
                    return _placed(error.failure(self.name), exported)
            else:
                seconds = dict(meta["seconds"])
        found = Artifact(self.name, place / self.file, exported.inputs, exported.outputs, seconds, meta is not None)
        if meta is None and found.size > LARGE:
            gc.collect()
            give_back_memory()
        return found

    def loadable(self, artifact: Artifact | Failure) -> tuple[Artifact, Path]:
        """Return an artefact that can be loaded here, and its file.

        Raises
        ------
        InputError
            If it is a `Failure`, was made by another backend, its file is gone, or nothing here runs it.
        """
        made = loadable(artifact, self.name)
        reason = self.executes()
        if reason is not None:
            raise InputError(reason)
        assert made.path is not None  # this kind of backend writes files
        return made, made.path

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


def _placed(failure: Failure, exported: Exported) -> Failure:
    """Return a failure with the operator that its error names, if it names one."""
    blamed = blamed_operator(failure, known := exported.specification)
    return failure if blamed is None else failure.placed(blamed.name, known.source_line(blamed.name))


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
        lock = FileLock(place.with_name(f".{place.name}.lock"))
        lock.acquire()
    except OSError as error:
        why = f"{error.strerror}; choose a folder that can be written"
        raise InputError(f"Cannot write {place.parent}: {why}.") from error
    try:
        yield
    finally:
        lock.release()


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
