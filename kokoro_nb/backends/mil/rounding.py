"""What a MIL program's numbers are computed and stored in: what is rounded to float16, and where."""

from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor


@dataclass(frozen=True)
class Arithmetic:
    """How an operator computes, and what becomes of its result.

    Attributes
    ----------
    name : str
        ``float32``: a value is stored in the dtype that the file declares. Inside an operator everything is float32,
        float16 values included, and each result is rounded once, when it is stored. In a float16 file that is float16
        storage with float32 products and sums; in a float32 file nothing is float16.

        ``strict``: storage as above, and where the file computes in float16 every step inside an operator is rounded to
        float16 too: each product and each partial sum of a convolution, each step of a softmax. What the file computes
        in float32 stays float32.

        ``float64``: every float of the file, float16 or float32, is a float64, and nothing is rounded: what the graph
        means, whatever the precision.

    Notes
    -----
    No mode is Apple's hardware, and nobody has shown that its results lie between ``float32`` and ``strict``. What is
    known: Apple publishes neither the order in which its processors sum, nor the width of their accumulators on the
    Neural Engine, nor what they fuse, nor how they approximate ``exp`` or ``sin``. For the GPU, Core ML has the setting
    ``allowLowPrecisionAccumulationOnGPU``, off by default, so that wide accumulation is the rule there. On the Neural
    Engine users report results worse than both modes: softplus drops to 0 above 10.4 (apple/coremltools, issue 2687)
    and reduce_log_sum_exp above 7.6 (issue 2690), where the formulas used here do not overflow.

    Strict sums in the order that `accumulation` documents; another order gives another error of the same size. In
    strict mode an elementary function is that of float32, rounded; a constant of an operator's formula, such as gelu's
    0.044715, stays exact.
    """

    name: Literal["float32", "strict", "float64"] = "float32"

    def entering(self, value: Any) -> Any:
        """Return an argument as the operator gets it; what is no float tensor is passed on."""
        if self.name == "float32" and isinstance(value, torch.Tensor) and value.dtype == torch.float16:
            return value.float()
        return value

    def constant(self, value: Any) -> Any:
        """Return a constant as it is stored; what is no tensor is passed on."""
        return self.stored(value, value.dtype) if isinstance(value, torch.Tensor) else value

    def admits(self, value: Tensor, declared: torch.dtype) -> bool:
        """Return whether an input may stand for the dtype `declared`.

        A float or a truth value must be of that dtype, with ``float64`` a float of any; an integer must be in range.
        """
        if value.dtype == declared:
            return True
        if declared.is_floating_point:
            return self.name == "float64" and value.is_floating_point()
        if torch.bool in (value.dtype, declared) or value.is_floating_point():
            return False
        bounds = torch.iinfo(declared)
        return not value.numel() or bounds.min <= int(value.min()) <= int(value.max()) <= bounds.max

    def stored_dtype(self, declared: torch.dtype) -> torch.dtype:
        """Return the dtype in which a value is stored that the file declares as `declared`."""
        return torch.float64 if self.name == "float64" and declared.is_floating_point else declared

    def stored(self, value: Tensor, declared: torch.dtype) -> Tensor:
        """Return a result, an input or a constant as it is stored, where the file declares the dtype `declared`.

        Raises
        ------
        TypeError
            If a float would become an integer or the other way round: then an operator is implemented wrongly.
        """
        if value.is_floating_point() != declared.is_floating_point or (value.dtype == torch.bool) != (
            declared == torch.bool
        ):
            raise TypeError(f"the file declares {declared}, the operator gave {value.dtype}")
        return value.to(self.stored_dtype(declared))


FLOAT32, STRICT, FLOAT64 = Arithmetic("float32"), Arithmetic("strict"), Arithmetic("float64")
