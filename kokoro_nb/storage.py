"""Files that are whole or absent: atomic writes, the artefact cache, JSON that keeps NaN."""

import errno
import hashlib
import json
import math
import os
import shutil
import tempfile
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from kokoro_nb.errors import InputError, one_line

LARGEST_JSON = 256 * 2**20  # bytes; what this package writes stays far below
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def cache_dir() -> Path:
    """Return the folder of everything that can be made again: ``$KOKORO_NB_CACHE`` or ``~/.cache/kokoro_nb``."""
    return Path(os.environ.get("KOKORO_NB_CACHE") or Path.home() / ".cache" / "kokoro_nb")


@contextmanager
def atomic(path: str | Path) -> Iterator[Path]:
    """Yield a temporary path beside `path`; what is written there takes its place only if no error is raised.

    The caller may create a file or a folder under the temporary name. A folder that stands at `path` already is
    replaced whole, never merged; where two processes write the same folder, the later one stays.

    Raises
    ------
    InputError
        If the parent folder cannot be written or the disk is full, or a file would replace a folder or a folder a file.
    """
    path = Path(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        room = Path(tempfile.mkdtemp(prefix=f".{path.name}.", dir=path.parent))
    except OSError as error:
        raise InputError(f"Cannot write {path}: {error.strerror}; {_remedy(error)}.") from error
    draft = room / path.name
    try:
        yield draft
        if path.exists() and path.is_dir() != draft.is_dir():
            kind = "folder" if path.is_dir() else "file"
            raise InputError(f"Cannot write {path}: there is a {kind} of that name; choose another name.")
        while not _moved(draft, path):  # a folder is in the way, perhaps put there by another process a moment ago
            with suppress(FileNotFoundError):
                os.replace(path, tempfile.mkdtemp(dir=room))
    except OSError as error:
        if error.errno not in FULL:
            raise
        raise InputError(f"Cannot write {path}: {error.strerror}; {_remedy(error)}.") from error
    finally:
        shutil.rmtree(room, ignore_errors=True)


def _remedy(error: OSError) -> str:
    return "make room, or choose another folder" if error.errno in FULL else "choose a folder that can be written"


def clear_drafts(path: str | Path) -> None:
    """Remove what processes that were killed have left half-written of `path`; for one who holds it alone."""
    path = Path(path)
    prefix = f".{path.name}."
    for draft in path.parent.iterdir() if path.parent.is_dir() else ():
        if draft.name.startswith(prefix) and "." not in draft.name.removeprefix(prefix) and draft.is_dir():
            shutil.rmtree(draft, ignore_errors=True)


def _moved(draft: Path, path: Path) -> bool:
    try:
        os.replace(draft, path)
    except OSError as error:
        if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
            raise
        return False
    return True


def require_own(folder: str | Path, marker: str, what: str, option: str) -> None:
    """Refuse a folder that would be replaced whole and is not ours.

    Parameters
    ----------
    folder : path
        May be absent, or empty.
    marker : str
        Name of the file by which one of ours is known.
    what, option : str
        What such a folder holds, and what the user chooses another one with.

    Raises
    ------
    InputError
        If it holds something else.
    """
    folder = Path(folder)
    if folder.exists() and not (folder / marker).is_file() and (not folder.is_dir() or any(folder.iterdir())):
        raise InputError(f"{folder} holds something else than {what} and would be replaced; choose another {option}.")


@contextmanager
def locked(folder: str | Path, what: str) -> Iterator[None]:
    """Hold a folder, made if need be, by a file named ``.lock`` in it; a process that was killed holds none.

    `what` is what is done in it, for the message.

    Raises
    ------
    InputError
        If another process holds it, or it cannot be written.
    """
    lock = FileLock(Path(folder) / ".lock")
    try:
        Path(folder).mkdir(parents=True, exist_ok=True)
        lock.acquire(timeout=0)
    except Timeout as error:
        raise InputError(f"Another {what} is using {folder}; wait for it, or choose another --out.") from error
    except OSError as error:
        raise InputError(f"Cannot write {folder}: {error.strerror}; {_remedy(error)}.") from error
    try:
        yield
    finally:
        lock.release()


def in_use(folder: str | Path) -> bool:
    """Return whether a process holds `folder`: see `locked`."""
    if not (Path(folder) / ".lock").exists():
        return False
    try:
        with FileLock(Path(folder) / ".lock", timeout=0):
            return False
    except (Timeout, OSError) as error:
        return isinstance(error, Timeout)


def write_text(path: str | Path, text: str) -> Path:
    """Write `text` as UTF-8, whole or not at all, and return the path."""
    with atomic(path) as draft:
        draft.write_text(text, encoding="utf-8")
    return Path(path)


def write_json(path: str | Path, value: Any) -> Path:
    """Write `value` as JSON, whole or not at all; non-finite floats become the strings "nan", "inf" and "-inf".

    JSON has no word for them, and dropping them is how other tools lose a NaN.
    """
    return write_text(path, json.dumps(json_ready(value), indent=2, ensure_ascii=False, allow_nan=False) + "\n")


def read_json(path: str | Path, what: str) -> Any:
    """Read the JSON file at `path`; `what` names it in the error.

    Raises
    ------
    InputError
        If there is no such file, or it is not JSON, nested too deep, or larger than `LARGEST_JSON`.
    """
    try:
        with Path(path).open("rb") as stream:
            raw = stream.read(LARGEST_JSON + 1)
        if len(raw) > LARGEST_JSON:
            raise ValueError(f"it has more than {LARGEST_JSON} bytes")
        return json.loads(raw.decode("utf-8"))
    except FileNotFoundError as error:
        raise InputError(f"There is no {what} at {path}; check the path.") from error
    except (OSError, ValueError, RecursionError) as error:
        raise InputError(f"The {what} at {path} cannot be read as JSON ({error}); make it again.") from error


def json_ready(value: Any) -> Any:
    """Return `value` with tuples as lists and non-finite floats as strings, so that strict JSON can hold it.

    >>> json_ready({"snr": float("nan"), "shape": (1, 2)})
    {'snr': 'nan', 'shape': [1, 2]}
    """
    if isinstance(value, dict):
        return {str(key): json_ready(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [json_ready(item) for item in value]
    if isinstance(value, Path):
        return str(value)
    if hasattr(value, "item") and getattr(value, "ndim", 1) == 0:
        value = value.item()
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def digest(*parts: str | bytes) -> str:
    """Return the SHA-256 (hexadecimal) of `parts`, each preceded by its length so that they cannot run together."""
    total = hashlib.sha256()
    for part in parts:
        raw = part.encode() if isinstance(part, str) else part
        total.update(len(raw).to_bytes(8, "little"))
        total.update(raw)
    return total.hexdigest()


def file_digest(path: str | Path) -> str:
    """Return the SHA-256 (hexadecimal) of the file at `path`; empty where it cannot be read."""
    try:
        total = hashlib.sha256()
        with Path(path).open("rb") as stream:
            while block := stream.read(2**20):
                total.update(block)
        return total.hexdigest()
    except OSError:
        return ""


def bytes_in(folder: Path) -> int:
    """Return how many bytes all files in a folder have, at any depth.

    Raises
    ------
    OSError
        If one is removed meanwhile.
    """
    return sum(path.stat().st_size for path in folder.rglob("*") if not path.is_dir())


def checksums(folder: str | Path, but: Collection[str] = ()) -> dict[str, dict[str, Any]]:
    """Return size and SHA-256 of every file in `folder`, by its path there, but for those of the names `but`."""
    root = Path(folder)
    paths = (path for path in sorted(root.rglob("*")) if path.is_file() and path.name not in but)
    return {path.relative_to(root).as_posix(): checksum(path) for path in paths}


def checksum(path: Path) -> dict[str, Any]:
    """Return size and SHA-256 of a file."""
    return {"bytes": path.stat().st_size, "sha256": file_digest(path)}


def read_arrays(path: Path) -> dict[str, Any]:
    """Read the arrays of an ``.npz`` file by name.

    Raises
    ------
    InputError
        If it is absent, damaged, no such file, or holds objects.
    """
    import numpy as np

    try:
        with np.load(path, allow_pickle=False) as saved:
            return {name: saved[name] for name in saved.files}
    except Exception as error:  # of NumPy, zipfile or zlib, by what is damaged
        raise InputError(f"{path} cannot be read as arrays by name ({one_line(error)}); use numpy.savez.") from error
