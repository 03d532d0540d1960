"""Which machine this is, as far as it decides how fast a program runs; nothing that names its owner."""

import os
import platform
import re
import subprocess
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from kokoro_nb.storage import digest

FLAGS = (
    *("sse4_2", "avx", "f16c", "fma", "avx2", "avx512f", "avx512bw", "avx512vl", "avx512_vnni", "avx512_bf16"),
    *("avx_vnni", "amx_tile", "amx_int8", "amx_bf16", "asimd", "asimdhp", "asimddp", "i8mm", "bf16", "sve", "sme"),
)
_CPUINFO, _MEMINFO, _CACHES = (
    *(Path("/proc/cpuinfo"), Path("/proc/meminfo")),
    Path("/sys/devices/system/cpu/cpu0/cache"),
)


@dataclass(frozen=True)
class Machine:
    """What decides how fast a program runs, as far as the system says.

    Attributes
    ----------
    processor : str
        As it calls itself, with family, model and stepping where the system names them.
    architecture, system : str
        ``x86_64``, ``Linux``.
    cores : int
        Those that this process may use.
    flags : tuple of str
        Those of `FLAGS` that the processor has.
    caches : dict
        Level -> size, as the system gives them: ``L2`` -> ``512K``.
    memory : int
        MB.
    """

    processor: str
    architecture: str
    system: str
    cores: int
    flags: tuple[str, ...]
    caches: dict[str, str]
    memory: int

    @property
    def fingerprint(self) -> str:
        """Name of the folder for its results: the processor in letters, its cores, and a digest of the rest.

        The memory is left out: kernels reserve other amounts of it.
        """
        decisive = {name: value for name, value in asdict(self).items() if name != "memory"}
        word = re.sub(r"[^a-z0-9]+", "-", self.processor.lower()).strip("-")[:32].strip("-")
        return f"{word or 'processor'}-{self.cores}-{digest(repr(decisive))[:8]}"

    def as_dict(self) -> dict[str, Any]:
        """Return all of it, the fingerprint first."""
        return {"fingerprint": self.fingerprint, **asdict(self)}


def this_machine() -> Machine:
    """Return the machine that this process runs on."""
    about = _cpuinfo()
    flags = about.get("flags", about.get("Features", "")) or _sysctl(
        "machdep.cpu.features", "machdep.cpu.leaf7_features"
    )
    known = set(flags.lower().replace(".", "_").split())
    numbers = [f"{about[key]}" for key in ("cpu family", "model", "stepping") if key in about]
    name = about.get("model name") or _sysctl("machdep.cpu.brand_string") or platform.processor() or platform.machine()
    return Machine(
        " ".join([name, *(["/".join(numbers)] if numbers else [])]),
        platform.machine(),
        platform.system(),
        cores(),
        tuple(flag for flag in FLAGS if flag in known),
        _caches(),
        _memory(),
    )


def cores() -> int:
    """Return how many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _cpuinfo() -> dict[str, str]:
    """Return what /proc/cpuinfo says of the first core; nothing where there is none."""
    found: dict[str, str] = {}
    for line in _lines(_CPUINFO):
        key, _, value = line.partition(":")
        if not key.strip() and found:
            break
        found[key.strip()] = value.strip()
    return found


def _caches() -> dict[str, str]:
    found = {}
    for folder in sorted(_CACHES.glob("index*")):
        level, kind, size = (" ".join(_lines(folder / name)) for name in ("level", "type", "size"))
        if kind != "Instruction" and size:
            found[f"L{level}"] = size
    return found


def _memory() -> int:
    """Return the memory in MB, 0 where the system does not say."""
    line = next((line for line in _lines(_MEMINFO) if line.startswith("MemTotal:")), "")
    return int(line.split()[1]) // 1000 if line else int(_sysctl("hw.memsize") or 0) // 1_000_000


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return []


def _sysctl(*names: str) -> str:
    """Return the answers of macOS to sysctl; nothing elsewhere."""
    if platform.system() != "Darwin":
        return ""
    done = subprocess.run(["sysctl", "-n", *names], capture_output=True, text=True, check=False)
    return done.stdout.strip()
