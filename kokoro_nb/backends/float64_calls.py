"""What it takes to compute a call of an operator in float64: its tensors, its dtypes, and how they lie in memory."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


def laid_out(tensor: Any, strides: tuple[int, ...]) -> Any:
    """Return the tensor with these strides in memory, elements: a view of it may be possible in that order alone.

    An attention's result, (batch, heads, time, width), is in memory by time first; its transpose is then viewed as
    (batch, time, heads x width), which no array in plain order allows.
    """
    import torch

    known = all(isinstance(one, int) and one > 0 for one in strides)  # neither symbols nor an axis that is repeated
    if not known or tensor.stride() == strides or not tensor.numel():
        return tensor
    return torch.empty_strided(tensor.shape, strides, dtype=tensor.dtype).copy_(tensor)


@contextmanager
def default_dtype(double: bool) -> Iterator[None]:
    """Have tensors that are made without a dtype, and quotients of integers, be float64 inside, if `double`."""
    import torch

    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64 if double else before)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


def double_dtypes(argument: Any) -> Any:
    """Put float64 in the place of float32 in the dtypes that an operator is given."""
    import torch

    if isinstance(argument, torch.dtype):
        return {torch.float32: torch.float64, torch.complex64: torch.complex128}.get(argument, argument)
    if isinstance(argument, dict):
        return {key: double_dtypes(value) for key, value in argument.items()}
    return type(argument)(map(double_dtypes, argument)) if isinstance(argument, list | tuple) else argument


def widened(tensor: Any, double: bool) -> Any:
    """Return a tensor of floats or complex numbers in float64, if `double`."""
    if not double:
        return tensor
    return tensor.double() if tensor.is_floating_point() else tensor.cdouble() if tensor.is_complex() else tensor
