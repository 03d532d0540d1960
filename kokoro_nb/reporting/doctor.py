"""What this machine offers: versions, backends, weights, and the reason for whatever is missing."""

import os
import platform
import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

from kokoro_nb.errors import absent_package
from kokoro_nb.reporting.versions import commit, versions

WHISPER = ("mini", "tiny.en", "base.en")


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
    return {
        "python": platform.python_version(),
        "executable": sys.executable,
        "platform": platform.platform(),
        "processors": os.cpu_count(),
        "memory": psutil.virtual_memory().total,
        "commit": commit(),
        "versions": versions(),
        "backends": backends,
        "weights": weights,
        "whisper": whisper,
    }


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
