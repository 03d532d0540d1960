"""Which versions a result was made with: packages, Python, the commit; and where the project is."""

import platform
import re
import subprocess
import tomllib
from functools import cache
from importlib import metadata
from pathlib import Path

import kokoro_nb
from kokoro_nb.errors import InputError

NAME = "kokoro_nb"
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
    return {
        "python": platform.python_version(),
        **{name: found for name in (NAME, *names) if (found := _installed(name)) is not None},
    }


@cache  # a sweep asks for every cell, and each answer reads a file
def _installed(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


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
        project = tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8")).get("project", {})
    except (OSError, ValueError):
        return False
    return str(project.get("name", "")).replace("-", "_") == NAME


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
