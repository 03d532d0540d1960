"""Run chosen tests as several processors would: ``make any-processor``, or ``python tests/any_processor.py TESTS``.

Each kind is a set of environment variables by which the libraries that compute here choose older kernels than this
processor has; a kind that this processor is itself below changes nothing. What is red on one kind alone has a limit
that was measured on another.
"""

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).parents[1]
TESTS = (  # those that compare figures of kernels
    "tests/traces/test_parity.py",
    "tests/models/test_rewrites.py",
    "tests/studies/patching/test_patch_effects.py",
    "tests/locate/test_rounding_bound.py",
    "tests/listening/test_spectrum.py",
)
KINDS: Mapping[str, Mapping[str, str]] = {
    "this processor": {},
    "two threads": {"OMP_NUM_THREADS": "2", "MKL_NUM_THREADS": "2", "OPENBLAS_NUM_THREADS": "2"},
    "AVX-512 without VNNI": {
        "ONEDNN_MAX_CPU_ISA": "AVX512_CORE",
        "MKL_ENABLE_INSTRUCTIONS": "AVX512",
        "OPENBLAS_CORETYPE": "SkylakeX",
    },
    "AVX2": {
        "ATEN_CPU_CAPABILITY": "avx2",
        "ONEDNN_MAX_CPU_ISA": "AVX2",
        "MKL_ENABLE_INSTRUCTIONS": "AVX2",
        "OPENBLAS_CORETYPE": "Haswell",
        "NPY_DISABLE_CPU_FEATURES": "AVX512F AVX512CD AVX512_SKX AVX512_CLX AVX512_CNL AVX512_ICL AVX512_SPR",
    },
    "SSE4.2": {
        "ATEN_CPU_CAPABILITY": "default",
        "ONEDNN_MAX_CPU_ISA": "SSE41",
        "MKL_ENABLE_INSTRUCTIONS": "SSE4_2",
        "OPENBLAS_CORETYPE": "Nehalem",
    },
}


def run(kind: str, tests: Sequence[str]) -> tuple[bool, str]:
    """Run `tests` as `kind` would; return whether all passed, and pytest's last lines."""
    given = {**os.environ, "OMP_NUM_THREADS": "1", **KINDS[kind]}
    command = [sys.executable, "-m", "pytest", "-q", "-m", "not slow", "-p", "no:cacheprovider", "--tb=line", *tests]
    done = subprocess.run(command, cwd=ROOT, env=given, capture_output=True, text=True, check=False)
    return done.returncode == 0, "\n".join(done.stdout.strip().splitlines()[-8:])


def main(tests: Sequence[str]) -> int:
    """Print the outcome of every kind; return 1 where one is red."""
    found = {}
    for kind, given in KINDS.items():
        found[kind], last = run(kind, tests or TESTS)
        print(f"{kind} ({' '.join(f'{k}={v}' for k, v in given.items()) or 'as it is'}): {last}\n", flush=True)
    red = [kind for kind, passed in found.items() if not passed]
    print(f"red on: {', '.join(red) or 'none'}")
    return int(bool(red))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
