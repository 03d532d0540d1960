"""GELU by tanh, written out: ExecuTorch's XNNPACK partitioner takes it for the one by erf.

Kokoro's own (``gelu_new`` in its Albert) is written out already; PocketTTS calls the operator.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.overrides import TorchFunctionMode


@contextmanager
def tanh_gelu_written_out() -> Iterator[None]:
    """Compute every ``gelu(approximate="tanh")`` inside by the formula it stands for, `torch.nn.GELU`'s too.

    For exporting under: a program exported inside holds the formula's operators in the place of ``aten.gelu``. Models
    and PyTorch itself stay as they are.
    """
    with _WrittenOut():
        yield


def tanh_gelu(x: Tensor) -> Tensor:
    """Return ``x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 x^3)))``: Hendrycks and Gimpel 2016, equation 3."""
    inner = math.sqrt(2 / math.pi) * (x + 0.044715 * x * x * x)
    return 0.5 * x * (1 + torch.tanh(inner))


class _WrittenOut(TorchFunctionMode):
    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        kwargs = kwargs or {}
        if func is F.gelu and kwargs.get("approximate") == "tanh":
            return tanh_gelu(args[0] if args else kwargs["input"])
        return func(*args, **kwargs)
