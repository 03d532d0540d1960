"""ExecuTorch ends the process where its buffer for intermediate outputs is too small.

A tensor that does not fit fails an assertion in C++, which aborts: no exception can be caught, and nothing of the run
is left.
"""

import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

PACKAGES = ("executorch",)
RUNNER = ""
TOOL = "ExecuTorch's event tracer"
WHERE = "devtools/etdump/etdump_flatcc.cpp: log_evalue, ET_CHECK"
MENDED_BY = "a buffer that holds them all"
LIMIT = 0.0
ERROR = ""
VARIES = ""


_CHILD = """
import sys, torch
from executorch.exir import to_edge_transform_and_lower
from executorch.extension.pybindings.portable_lib import _load_for_executorch_from_buffer
x = torch.zeros(32, 64)
lowered = to_edge_transform_and_lower(torch.export.export(torch.nn.Linear(64, 64), (x,)))
program = lowered.to_executorch().buffer
module = _load_for_executorch_from_buffer(program, enable_etdump=True, debug_buffer_size=int(sys.argv[1]))
try:
    module.forward([x])
except RuntimeError:
    pass
print("lives")
"""


def inputs() -> dict[str, Tensor]:
    """Return the two sizes of the buffer, in bytes; the output alone takes 8192."""
    return {"small": torch.tensor([1000]), "large": torch.tensor([10_000_000])}


def expected(inputs: Mapping[str, Tensor]) -> np.ndarray:
    """Return 1: the process lives on, whether the call raises an exception or not."""
    return np.ones(1)


def seen(inputs: Mapping[str, Tensor], mended: bool, run: Callable[..., Any] | None) -> np.ndarray:
    """Return 1 if a process of its own comes to its last line, 0 if it is aborted."""
    size = int(inputs["large" if mended else "small"])
    done = subprocess.run([sys.executable, "-c", _CHILD, str(size)], capture_output=True, text=True, check=False)
    if done.returncode not in (0, -signal.SIGABRT):
        raise RuntimeError(f"The process ended with {done.returncode}: {done.stderr}")
    return np.array([done.stdout.strip().endswith("lives")])
