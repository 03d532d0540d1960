"""Which versions a result was made with, what this machine offers beside them, and where the project is."""

import os
import platform
import re
import subprocess
import sys
from collections.abc import Callable, Mapping
from importlib import import_module, metadata
from pathlib import Path
from typing import Any

import kokoro_nb
from kokoro_nb.cache_keys import package_versions
from kokoro_nb.errors import InputError, absent_package

NAME = "kokoro_nb"
WHISPER = ("mini", "tiny.en", "base.en")
PACKAGE = Path(kokoro_nb.__file__).parent


def versions() -> dict[str, str]:
    """Return name -> version of Python, this package and every runtime that it names and that is installed.

    The names are those of the package's own requirements, extras included but for the development tools. Nothing is
    imported.

    Raises
    ------
    InputError
        If the package itself is not installed.
    """
    try:
        required = metadata.requires(NAME) or []
    except metadata.PackageNotFoundError as error:
        raise InputError(f"{NAME} is not installed for this Python; run: pip install -e . in its folder.") from error
    lines = [line for line in required if "extra == 'dev'" not in line.replace('"', "'")]
    names = [re.split(r"[^\w.-]", line, maxsplit=1)[0] for line in lines]
    found = package_versions((NAME, *names))
    return {"python": platform.python_version()} | {name: one for name, one in found.items() if one != "absent"}


def project_folder(start: str | Path | None = None) -> Path | None:
    """Return the project's folder: `start` (by default the working directory) or the nearest folder above it whose
    ``pyproject.toml`` names this package; None if there is none.
    """
    start = Path.cwd() if start is None else Path(start).resolve()
    return next((folder for folder in (start, *start.parents) if _is_project(folder)), None)


def outputs_folder() -> Path:
    """Return ``outputs/`` of the project that the working directory lies in, else of the working directory itself."""
    return (project_folder() or Path.cwd()) / "outputs"


def _is_project(folder: Path) -> bool:
    try:
        text = (folder / "pyproject.toml").read_text(encoding="utf-8")
    except (OSError, ValueError):
        return False
    return bool(re.search(rf"""^name *= *["']{NAME.replace("_", "[-_]")}["']""", text, re.MULTILINE))


def commit() -> str | None:
    """Return the commit of the package's source, ``-dirty`` added where files differ from it; None outside git."""
    folder = project_folder(PACKAGE)
    if folder is None:
        return None
    command = ["git", "-C", str(folder), "describe", "--always", "--dirty", "--abbrev=12", "--exclude=*"]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=30).stdout.strip() or None
    except (OSError, subprocess.SubprocessError):
        return None


def doctor() -> dict[str, Any]:
    """Return what this machine offers.

    Returns
    -------
    dict
        ``python``, ``executable``, ``platform``, ``processors``, ``memory`` (bytes),
        ``commit``, ``versions`` (name -> version), ``weights`` and ``whisper``: name -> None if it can be used, else
        the reason why not; ``backends``: name -> its ``purpose``, and under ``exports`` and ``runs`` None if it can do
        that here, else the reason why not.
    """
    import psutil

    from kokoro_nb.backends.base import quietly

    with quietly():  # what the runtimes say when they are imported is no part of the answer
        from kokoro_nb.backends import BACKENDS, PURPOSES
        from kokoro_nb.listening.recogniser import whisper_available

        backends = {
            name: {"purpose": PURPOSES[name], "exports": (absent := one.available()), "runs": absent or one.executes()}
            for name, one in BACKENDS.items()
        }
        weights = _unless_absent("kokoro", lambda: import_module("kokoro_nb.models.kokoro").reachable_weights())
        whisper = _unless_absent("whisper", lambda: {name: whisper_available(name) for name in WHISPER})
    found: dict[str, Any] = {"python": platform.python_version(), "executable": sys.executable}
    found |= {"platform": platform.platform(), "processors": os.cpu_count()}
    found |= {"memory": psutil.virtual_memory().total, "commit": commit()}
    return {**found, "versions": versions(), "backends": backends, "weights": weights, "whisper": whisper}


def _unless_absent(name: str, listed: Callable[[], dict[str, str | None]]) -> dict[str, str | None]:
    """Return what is listed; without the extra that it takes, `name` alone and the sentence that names the extra."""
    try:
        return listed()
    except ModuleNotFoundError as error:
        return {name: str(absent_package(error) or error)}


def describe(report: Mapping[str, Any]) -> str:
    """Return what `doctor` found as text for a terminal."""
    backends = report["backends"]
    lines = [
        f"Python {report['python']} ({report['executable']})",
        f"{report['platform']}, {report['processors']} processors, memory {report['memory'] / 2**30:.1f} GiB",
        f"Commit {report['commit'] or 'unknown: this is no git checkout'}",
        *("", "Backends", *_columns({name: _status(**found) for name, found in backends.items()})),
        *("", "What each backend is for", *_columns({name: found["purpose"] for name, found in backends.items()})),
    ]
    for title in ("weights", "whisper"):
        lines += ["", title.capitalize(), *_columns({name: _status(why, None) for name, why in report[title].items()})]
    return "\n".join([*lines, "", "Versions", *_columns(report["versions"])])


def _status(exports: str | None, runs: str | None, **_: str) -> str:
    return f"absent: {exports}" if exports else f"builds here, runs elsewhere: {runs}" if runs else "ready"


def _columns(rows: Mapping[str, str]) -> list[str]:
    width = max((len(name) for name in rows), default=0)
    return [f"  {name:<{width}}  {text}" for name, text in rows.items()]
