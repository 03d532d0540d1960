"""Run chosen tests as several processors would: ``make any-processor``, or ``python tests/any_processor.py``.

Each kind is a set of environment variables by which the libraries that compute here choose older kernels than this
processor has, and the flags that it does not have, which the package is not shown either; a kind that this processor
is itself below changes nothing. What is red on one kind alone has a limit that was measured on another. XNNPACK and
ONNX Runtime have no such variable: of them only the number of threads changes.
"""

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).parents[1]
TESTS = (  # those that compare figures of kernels
    "tests/traces/test_parity.py",
    "tests/models/test_rewrites.py",
    "tests/studies/patching/test_patch_effects.py",
    "tests/locate/test_rounding_bound.py",
    "tests/locate/test_rounding_families.py",
    "tests/locate/test_rounding_edges.py",
    "tests/locate/test_local_error_arithmetic.py",
    "tests/listening/test_spectrum.py",
    "tests/listening/test_spectral_agreement.py",
    "tests/studies/pockettts/test_package_reference.py",
)
LACKS = "KOKORO_NB_TESTS_LACK"  # the flags of /proc/cpuinfo that a kind does not have
KINDS: Mapping[str, Mapping[str, str]] = {
    "this processor": {},
    "two threads": {"OMP_NUM_THREADS": "2", "MKL_NUM_THREADS": "2", "OPENBLAS_NUM_THREADS": "2"},
    "AVX-512 without VNNI": {
        "ONEDNN_MAX_CPU_ISA": "AVX512_CORE",
        "MKL_ENABLE_INSTRUCTIONS": "AVX512",
        "OPENBLAS_CORETYPE": "SkylakeX",
        LACKS: "vnni amx bf16",
    },
    "AVX2": {
        "ATEN_CPU_CAPABILITY": "avx2",
        "ONEDNN_MAX_CPU_ISA": "AVX2",
        "MKL_ENABLE_INSTRUCTIONS": "AVX2",
        "OPENBLAS_CORETYPE": "Haswell",
        "NPY_DISABLE_CPU_FEATURES": "AVX512F AVX512CD AVX512_SKX AVX512_CLX AVX512_CNL AVX512_ICL AVX512_SPR",
        LACKS: "vnni amx bf16 avx512",
    },
    "SSE4.2": {
        "ATEN_CPU_CAPABILITY": "default",
        "ONEDNN_MAX_CPU_ISA": "SSE41",
        "MKL_ENABLE_INSTRUCTIONS": "SSE4_2",
        "OPENBLAS_CORETYPE": "Nehalem",
        LACKS: "vnni amx bf16 avx fma f16c",
    },
}


def pytest_configure() -> None:
    """Show the package a processor without the flags that a kind lacks; pytest calls it where this is a plugin."""
    from kokoro_nb.benchmarks import machine

    lacks = os.environ.get(LACKS, "").split()
    if lacks and machine._CPUINFO.exists():
        seen = [_without(line, lacks) for line in machine._CPUINFO.read_text(encoding="utf-8").splitlines()]
        machine._CPUINFO = Path(tempfile.mkdtemp()) / "cpuinfo"
        machine._CPUINFO.write_text("\n".join(seen), encoding="utf-8")


def _without(line: str, lacks: Sequence[str]) -> str:
    if not line.startswith(("flags", "Features")):
        return line
    return " ".join(word for word in line.split(" ") if not any(one in word for one in lacks))


def run(kind: str, tests: Sequence[str]) -> tuple[bool, str]:
    """Run `tests` as `kind` would; return whether all passed, and pytest's last lines."""
    given = {**os.environ, "OMP_NUM_THREADS": "1", **KINDS[kind]}
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-m",
        "not slow",
        "-p",
        "no:cacheprovider",
        "--tb=line",
        "--durations=4",
    ]
    command += ["-p", "tests.any_processor", *tests]
    done = subprocess.run(command, cwd=ROOT, env=given, capture_output=True, text=True, check=False)
    return done.returncode == 0, "\n".join(done.stdout.strip().splitlines()[-12:])


def main(given: Sequence[str] | None = None) -> int:
    """Print the outcome of every kind; return 1 where one is red."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("tests", nargs="*", default=TESTS, help="which (default: those that compare figures)")
    parser.add_argument("--kind", action="append", choices=KINDS, help="one kind; again for another (default: all)")
    arguments = parser.parse_args(given)
    found = {}
    for kind in arguments.kind or KINDS:
        found[kind], last = run(kind, arguments.tests)
        about = " ".join(f"{name}={value}" for name, value in KINDS[kind].items())
        print(f"{kind} ({about or 'as it is'}): {last}\n", flush=True)
    red = [kind for kind, passed in found.items() if not passed]
    print(f"red on: {', '.join(red) or 'none'}")
    return int(bool(red))


if __name__ == "__main__":
    sys.exit(main())
