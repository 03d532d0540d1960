"""Which machine this is, as far as it decides how fast a program runs; nothing that names its owner."""

import os
import platform
import subprocess
from dataclasses import dataclass
from pathlib import Path

_CPUINFO = Path("/proc/cpuinfo")


@dataclass(frozen=True)
class Machine:
    """What a ratio is of.

    Attributes
    ----------
    processor : str
        As it calls itself.
    architecture, system : str
        ``x86_64``, ``Linux``.
    cores : int
        Those that this process may use.
    """

    processor: str
    architecture: str
    system: str
    cores: int


def this_machine() -> Machine:
    """Return the machine that this process runs on."""
    named = _linux_name() or _macos_name() or platform.processor() or platform.machine()
    return Machine(named, platform.machine(), platform.system(), cores())


def cores() -> int:
    """Return how many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _linux_name() -> str:
    text = _CPUINFO.read_text(encoding="utf-8", errors="replace") if _CPUINFO.exists() else ""
    names = (line.partition(":")[2].strip() for line in text.splitlines() if line.startswith("model name"))
    return next(names, "")


def _macos_name() -> str:
    if platform.system() != "Darwin":
        return ""
    command = ["sysctl", "-n", "machdep.cpu.brand_string"]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()
