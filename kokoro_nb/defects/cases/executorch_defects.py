"""Defects of ExecuTorch's debugging tools."""

import signal
import subprocess
import sys
from math import nan
from typing import Any

import torch
from torch import Tensor

from kokoro_nb.defects.defect_case import Defect


class InspectorDefect(Defect):
    """What the Inspector says of a reference and an output."""

    tool = "ExecuTorch's Inspector"
    packages = ("executorch",)


class ExecutorchDebugBuffer(Defect):
    """ExecuTorch ends the process where its buffer for intermediate outputs is too small.

    A tensor that does not fit fails an assertion in C++, which aborts: no exception can be caught, and nothing of the
    run is left.
    """

    tool = "ExecuTorch's event tracer"
    packages = ("executorch",)
    where = "devtools/etdump/etdump_flatcc.cpp: log_evalue, ET_CHECK"
    mended_by = "a buffer that holds them all"
    script = """
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
    # sizes of the buffer in bytes; the output alone takes 8192
    inputs = {"small": torch.tensor([1000]), "large": torch.tensor([10_000_000])}

    def broken(self, small: Tensor, large: Tensor) -> list[bool]:
        # whether a process of its own comes to its last line
        command = [sys.executable, "-c", self.script, str(int(small))]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode not in (0, -signal.SIGABRT):
            raise RuntimeError(f"The process ended with {done.returncode}: {done.stderr}")
        return [done.stdout.strip().endswith("lives")]

    def mended(self, small: Tensor, large: Tensor) -> list[bool]:
        return self.broken(large, large)

    def right(self, small: Tensor, large: Tensor) -> list[float]:
        return [1.0]  # the process lives on, whether the call raises an exception or not


class ExecutorchGapNan(InspectorDefect):
    """ExecuTorch's numeric gap scores an output of NaN as 0 dB.

    The comparators behind Inspector.calculate_numeric_gap put 0 in the place of NaN on both sides, so that the error is
    the signal.
    """

    where = "devtools/inspector/_inspector_utils.py: convert_to_float_tensor, torch.nan_to_num"
    mended_by = "a comparator of one's own that leaves NaN alone"
    inputs = {"reference": torch.linspace(-1, 1, 100), "output": torch.full((100,), nan)}

    def broken(self, reference: Tensor, output: Tensor) -> list[float]:
        from executorch.devtools.inspector.numerical_comparator import SNRComparator

        return self.gap(SNRComparator(), reference, output)

    def mended(self, reference: Tensor, output: Tensor) -> list[float]:
        from executorch.devtools.inspector.numerical_comparator import NumericalComparatorBase

        class Honest(NumericalComparatorBase):
            def element_compare(self, a: Any, b: Any) -> float:
                return float(10 * torch.log10(a.square().mean() / (a - b).square().mean()))

        return self.gap(Honest(), reference, output)

    def gap(self, comparator: Any, reference: Tensor, output: Tensor) -> list[float]:
        return comparator.compare({((1,), reference): ((1,), output)}, {}, {})["gap"][0]

    def right(self, reference: Tensor, output: Tensor) -> list[float]:
        return [nan]  # the signal-to-noise ratio of NaN


class ExecutorchGapRounded(InspectorDefect):
    """ExecuTorch's compare_results says that the mean squared error of an output 5 % off is 0.

    Every metric is rounded to two digits behind the point, whatever the scale of the signal.
    """

    where = "devtools/inspector/_inspector_utils.py: calculate_mse, round(..., 2)"
    mended_by = "MSEComparator, which does not round"
    limit = 1e-5
    inputs = {"reference": torch.linspace(-1, 1, 100), "output": torch.linspace(-1, 1, 100) + 0.05}

    def broken(self, reference: Tensor, output: Tensor) -> list[float]:
        from executorch.devtools.inspector import compare_results

        return compare_results([reference], [output], ["mse"])["mse"]

    def mended(self, reference: Tensor, output: Tensor) -> list[float]:
        from executorch.devtools.inspector.numerical_comparator import MSEComparator

        return [MSEComparator().element_compare(reference, output)]

    def right(self, reference: Tensor, output: Tensor) -> list[Tensor]:
        return [(reference - output).square().mean()]


class ExecutorchMissingOutput(InspectorDefect):
    """ExecuTorch's compare_results passes over an output that is missing.

    The outputs are paired by zip, which ends with the shorter list: two references and one output make one row without
    an error.
    """

    where = "devtools/inspector/_inspector_utils.py: calculate_mse, calculate_snr, calculate_cosine_similarity"
    mended_by = "no output missing"
    inputs = {"first": torch.ones(4), "second": torch.zeros(4)}

    def broken(self, *references: Tensor, missing: int = 1) -> list[int]:
        from executorch.devtools.inspector import compare_results

        outputs = references[: len(references) - missing]
        return [len(compare_results(list(references), list(outputs), ["mse"])["mse"])]

    def mended(self, *references: Tensor) -> list[int]:
        return self.broken(*references, missing=0)

    def right(self, *references: Tensor) -> list[int]:
        return [len(references)]  # outputs that have to be judged


class ExecutorchTapDeviation(Defect):
    """ExecuTorch's tap reports a deviation 25 times too large where the mean is large.

    It is the root of |E[x²] - E[x]²| in float32: with a mean of 1000 and a deviation of 0.01 that is rounding, and abs
    hides its sign.
    """

    tool = "ExecuTorch's tap"
    packages = ("executorch",)
    where = "devtools/intermediate_output_tap/_reducers.py: STATS, std"
    mended_by = "the mean taken away before the tap"
    limit = 1e-2
    inputs = {"x": 1000 + 0.01 * torch.randn(4096, generator=torch.Generator().manual_seed(0))}

    def broken(self, x: Tensor) -> list[Tensor]:
        from executorch.devtools.intermediate_output_tap import STATS

        return [STATS.eager(x)[STATS.fields.index("std")]]

    def mended(self, x: Tensor) -> list[Tensor]:
        return self.broken(x - x.mean())

    def right(self, x: Tensor) -> list[Tensor]:
        return [x.std(correction=0)]
