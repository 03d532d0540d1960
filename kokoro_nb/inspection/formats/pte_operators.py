"""What an instruction of an ExecuTorch program computes: PyTorch's operator of that name, in any float type."""

from collections.abc import Callable, Sequence
from inspect import signature
from types import SimpleNamespace
from typing import Any

import torch

from kokoro_nb.backends.exported import tensors_in
from kokoro_nb.errors import InputError
from kokoro_nb.torch_private import schema

Function = Callable[..., Any]


class FunctionalOperator:
    """An operator of the form ``name.out`` called without the memory that it writes to.

    It has the parts of a PyTorch operator that `kokoro_nb.locate.rounding_bound` looks at.

    Parameters
    ----------
    name : str
        Such as ``aten::add.out``.
    results : sequence of torch.dtype
        The types that the file declares of its results.

    Raises
    ------
    InputError
        If neither PyTorch nor this module has an operator of that name.
    """

    def __init__(self, name: str, results: Sequence[Any]):
        self.name, self._results = name, results
        stem, _, overload = name.partition(".")
        self.is_view = stem.endswith(("_copy", "et_view", "_clone_dim_order"))  # rounds nothing
        if stem in OWN:
            self._function: Any = OWN[stem]
            known = [SimpleNamespace(name=one, default_value=None) for one in signature(OWN[stem]).parameters]
            self._schema, self._outs = SimpleNamespace(arguments=known), []
            return
        namespace, _, plain = stem.partition("::")
        try:
            self._function = getattr(getattr(getattr(torch.ops, namespace), plain), overload or "default")
        except AttributeError as error:
            raise InputError(f"the operator {name} is not known here") from error
        arguments = schema(self._function).arguments
        self._schema = SimpleNamespace(arguments=[one for one in arguments if not one.is_out])
        self._outs = [one for one in arguments if one.is_out]

    def __str__(self) -> str:
        return self.name.replace("::", ".")

    def __call__(self, /, **named: Any) -> Any:
        """Compute it; results are of the type of the widest float among its arguments."""
        if not self._outs:
            return self._function(**named)
        dtypes = [one.dtype for one in tensors_in(named) if one.is_floating_point()]
        kind = torch.float64 if torch.float64 in dtypes else next(iter(dtypes), torch.int64)
        kinds = [kind if one.is_floating_point and dtypes else one for one in self._results]
        outs = [torch.empty(0, dtype=one) for one in kinds]
        if "List" in str(self._outs[0].type):
            self._function(**named, **{self._outs[0].name: outs})
            return tuple(outs)
        return self._function(**named, **dict(zip((one.name for one in self._outs), outs, strict=True)))


def _along(values: Any, input: Any, axis: int) -> Any:
    return values.reshape([-1 if k == axis % input.ndim else 1 for k in range(input.ndim)])


def _quantised(input: Any, scale: Any, zero_point: Any, low: int, high: int, dtype: Any) -> Any:
    whole = torch.round(input / scale) + zero_point
    return torch.clamp(whole, low, high).to(dtype)


def _quantised_by_channel(input: Any, scales: Any, zero_points: Any, axis: int, low: int, high: int, dtype: Any) -> Any:
    return _quantised(input, _along(scales, input, axis), _along(zero_points, input, axis), low, high, dtype)


def _dequantised(
    input: Any, scale: Any, zero_point: Any, low: int, high: int, dtype: Any, out_dtype: Any = None
) -> Any:
    return (input.double() - zero_point) * scale


def _dequantised_by_channel(
    input: Any, scales: Any, zero_points: Any, axis: int, low: int, high: int, dtype: Any, out_dtype: Any = None
) -> Any:
    zero = 0 if zero_points is None else _along(zero_points, input, axis)
    return _dequantised(input, _along(scales, input, axis), zero, low, high, dtype)


def _same(self: Any, non_blocking: Any = False, dim_order: Any = None) -> Any:
    return self


OWN: dict[str, Function] = {
    "executorch_prim::et_view": lambda self, size: self.reshape(size),
    "aten::view_copy": lambda self, size: self.reshape(size),
    "aten::copy_": lambda self, src, non_blocking=False: src.expand(self.shape),
    "dim_order_ops::_to_dim_order_copy": _same,
    "dim_order_ops::_clone_dim_order": _same,
    "quantized_decomposed::quantize_per_tensor": _quantised,
    "quantized_decomposed::quantize_per_channel": _quantised_by_channel,
    "quantized_decomposed::dequantize_per_tensor": _dequantised,
    "quantized_decomposed::dequantize_per_channel": _dequantised_by_channel,
}
"""Operators of ExecuTorch that PyTorch has not: what each computes, under the names of its arguments."""
