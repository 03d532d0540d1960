"""What a cached result depends on beside its inputs: our own code, versions of packages, and files that it reads."""

import json
import re
from collections.abc import Iterable, Mapping
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from kokoro_nb.storage import digest, file_digest, json_ready, read_json

PACKAGE = Path(__file__).parent
DATA = PACKAGE.parent / "data"
TESTED = PACKAGE / "tested_versions.json"  # the first and the last, as `make versions` writes them
ONNX_RUNTIMES = ("onnxruntime", "onnxruntime-gpu", "onnxruntime-openvino", "onnxruntime-directml")


def cache_key(about: Mapping[str, Any], rooms: Iterable[str] = (), packages: Iterable[str] = ()) -> str:
    """Return the SHA-256 (hexadecimal) under which a result is saved.

    Parameters
    ----------
    about : mapping
        What decides the result, as plain values: inputs by content, options, the version of the file's form.
    rooms : iterable of str
        Folders of this package whose code makes the result; all by default.
    packages : iterable of str
        Distributions that make it.
    """
    whole = {"about": about, "code": code_digest(*sorted(rooms)), "versions": package_versions(packages)}
    return digest(json.dumps(json_ready(whole), sort_keys=True))


@cache
def code_digest(*rooms: str) -> str:
    """Return the digest of this package's source files, by path and content; of its folders `rooms` alone if given."""
    folders = [PACKAGE / room for room in rooms] or [PACKAGE]
    sources = sorted(path for one in folders for path in one.rglob("*") if path.suffix in (".py", ".json"))
    return digest(*(part for path in sources for part in (path.relative_to(PACKAGE).as_posix(), path.read_bytes())))


def package_versions(packages: Iterable[str]) -> dict[str, str]:
    """Return the installed version of each distribution, ``absent`` where there is none."""
    return {package: _version(package) for package in packages}


def untested_versions() -> list[str]:
    """Return a sentence for each runtime of another version than those that this package was tested with."""
    tested = read_json(TESTED, "table of versions")
    return [
        f"{name} {version} is none of the versions that this was tested with, {first} to {last}; what it lacks is said."
        for name, version in package_versions(tested).items()
        for first, last in [tested[name]]
        if version != "absent" and not _numbers(first) <= _numbers(version) <= _numbers(last)
    ]


def _numbers(version: str) -> list[int]:
    return [int(one) for one in re.findall(r"\d+", version)[:2]]  # a third one is for what is mended


def rival_runtimes() -> str:
    """Return the sentence that says so where packages bring ONNX Runtime twice; empty where there is one, or none."""
    found = [f"{name} {one}" for name, one in package_versions(ONNX_RUNTIMES).items() if one != "absent"]
    overwritten = f"{' and '.join(found)} are both installed, each over the files of the other"
    return f"{overwritten}; uninstall all of them, and install one." if len(found) > 1 else ""


def files_digest(path: str | Path) -> str:
    """Return the digest of a file, or of all files of a folder by path and content; empty where there is nothing.

    A file that has neither changed its size nor been written again is read once in a process.
    """
    path = Path(path)
    if path.is_file():
        about = path.stat()
        return _content(path, about.st_size, about.st_mtime_ns)
    if not path.is_dir():
        return ""
    inside = sorted(one for one in path.rglob("*") if one.is_file() and "__pycache__" not in one.parts)
    return digest(*(part for one in inside for part in (one.relative_to(path).as_posix(), files_digest(one))))


@cache
def _content(path: Path, size: int, written: int) -> str:
    return file_digest(path)


@cache  # a sweep asks for every cell, and each answer reads a file
def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "absent"
