"""What an instruction of an ExecuTorch program computes: PyTorch's operator of that name, in any float type."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from inspect import signature
from types import SimpleNamespace
from typing import Any, ClassVar

import torch

from kokoro_nb.errors import InputError
from kokoro_nb.inspection.formats.xnnpack_graph import XnnGraph

Function = Callable[..., Any]


@dataclass(frozen=True)
class Argument:
    """An argument of an operator: its name, and what it is when it is left out."""

    name: str
    default_value: Any = None


class FunctionalOperator:
    """An operator of the form ``name.out`` called without the memory that it writes to.

    It has the parts of a PyTorch operator that `kokoro_nb.locate.rounding_bound` looks at.

    Parameters
    ----------
    name : str
        Such as ``aten::add.out``.

    Raises
    ------
    InputError
        If neither PyTorch nor this module has an operator of that name.
    """

    results: tuple[Any, ...] = ()
    """The types that the file declares of its results."""

    def __init__(self, name: str):
        self.name = name
        stem = name.split(".", maxsplit=1)[0]
        self._function: Function | None = None
        self.is_view = stem.endswith(("_copy", "et_view", "_clone_dim_order"))  # rounds nothing
        own = OWN.get(stem)
        if own is not None:
            self._function = own
            self._schema = SimpleNamespace(arguments=tuple(map(Argument, signature(own).parameters)))
            self.written: tuple[str, ...] = ("out",)
            self._is_list = False
            return
        namespace, _, rest = name.partition("::")
        plain, _, overload = rest.partition(".")
        try:
            packet = getattr(getattr(torch.ops, namespace), plain)
            self._operator = getattr(packet, overload or "default")
        except AttributeError as error:
            raise InputError(f"the operator {name} is not known here") from error
        arguments = self._operator._schema.arguments
        outs = [one for one in arguments if one.is_out]
        self.written = tuple(one.name for one in outs)
        self._is_list = bool(outs) and "List" in str(outs[0].type)
        read = (Argument(one.name, one.default_value) for one in arguments if not one.is_out)
        self._schema = SimpleNamespace(arguments=tuple(read))

    def __str__(self) -> str:
        return self.name.replace("::", ".")

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        """Compute it; results are of the type of the widest float among its arguments."""
        named = dict(zip((one.name for one in self._schema.arguments), args, strict=False)) | kwargs
        if self._function is not None:
            return self._function(**named)
        floats = [one.dtype for one in _tensors(named) if one.is_floating_point()]
        kind = torch.float64 if torch.float64 in floats else floats[0] if floats else torch.int64
        kinds = self.results or (kind,) * len(self.written)
        dtypes = [kind if one.is_floating_point and floats else one for one in kinds]
        outs = [torch.empty(0, dtype=dtype) for dtype in dtypes]
        if self._is_list:
            self._operator(**named, **{self.written[0]: outs})
            return tuple(outs)
        return self._operator(**named, **dict(zip(self.written, outs, strict=True)))


def _tensors(named: dict[str, Any]) -> list[Any]:
    values = [one for value in named.values() for one in (value if isinstance(value, list | tuple) else [value])]
    return [one for one in values if hasattr(one, "is_floating_point")]


def _quantised(input: Any, scale: Any, zero_point: Any, low: int, high: int, dtype: Any) -> Any:
    whole = torch.round(input / scale) + zero_point
    return torch.clamp(whole, low, high).to(dtype)


def _quantised_by_channel(input: Any, scales: Any, zero_points: Any, axis: int, low: int, high: int, dtype: Any) -> Any:
    shape = [-1 if k == axis % input.ndim else 1 for k in range(input.ndim)]
    return _quantised(input, scales.reshape(shape), zero_points.reshape(shape), low, high, dtype)


def _dequantised(
    input: Any, scale: Any, zero_point: Any, low: int, high: int, dtype: Any, out_dtype: Any = None
) -> Any:
    return (input.double() - zero_point) * scale


def _dequantised_by_channel(
    input: Any, scales: Any, zero_points: Any, axis: int, low: int, high: int, dtype: Any, out_dtype: Any = None
) -> Any:
    shape = [-1 if k == axis % input.ndim else 1 for k in range(input.ndim)]
    zero = 0 if zero_points is None else zero_points.reshape(shape)
    return _dequantised(input, scales.reshape(shape), zero, low, high, dtype)


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


DRAWS = 4  # of integers moved by one
SHARE = 1e-5  # of the peak: rounding in float32 beside that of integers


@dataclass(frozen=True, eq=False)
class XnnDelegate:
    """An XNNPACK delegate.

    Attributes
    ----------
    graph : XnnGraph
        What it computes.
    sizes : tuple
        The shape of each argument of its call.
    """

    graph: XnnGraph
    sizes: tuple[tuple[int, ...] | None, ...]
    name: ClassVar[str] = "XnnpackBackend"
    is_view: ClassVar[bool] = False

    @classmethod
    def read(cls, payload: bytes, named: Mapping[str, bytes], sizes: Sequence[tuple[int, ...] | None]) -> "XnnDelegate":
        """Read it from its payload and the data that it finds by name.

        Raises
        ------
        ValueError
            If it is damaged, does not fit its call, or holds something that is not known here.
        """
        found = cls(XnnGraph.read(payload, named), tuple(sizes))
        places = (*found.reads, *found.gives)
        if not found.gives or any(k >= len(sizes) or sizes[k] is None for k in places):
            raise ValueError("its graph has other inputs or outputs than its call")
        return found

    @cached_property
    def reads(self) -> tuple[int, ...]:
        """Which arguments of the call it reads."""
        return tuple(sorted(one.external for one in self.graph.inputs if one.external is not None))

    @cached_property
    def gives(self) -> tuple[int, ...]:
        """Which it writes."""
        return tuple(sorted(one.external for one in self.graph.outputs if one.external is not None))

    def __str__(self) -> str:
        return self.name

    def __call__(self, **named: Any) -> tuple[Any, ...]:
        """Compute it; results are of the type of the widest float among its arguments."""
        return self.run(named)

    def run(
        self, named: Mapping[str, Any], observe: Callable[[int, Any], object] = lambda *_: None, move: Any = None
    ) -> tuple[Any, ...]:
        """Compute it, and have `observe` get each value inside, by its id; see `XnnGraph.run`."""
        given = {k: named[f"input_{k}"] for k in self.reads}
        double = any(one.dtype == torch.float64 for one in given.values())
        with torch.no_grad():
            found = self.graph.run(given, torch.float64 if double else torch.float32, observe, move)
        return tuple(found[k].reshape(self.sizes[k]) for k in self.gives)

    def explained(self, named: Mapping[str, Any], results: tuple[Any, ...]) -> tuple[Any, ...] | None:
        """Return what rounding may do to each result of a quantised delegate; None of another, where it is measured.

        XNNPACK's integer kernels may round to the neighbour: each integer on the way is moved by up to one at random,
        and what that does at most to a channel is allowed to all of it.
        """
        if not self.graph.is_quantised:
            return None
        generator = torch.Generator().manual_seed(0)

        def move(shape: Any) -> Any:
            return torch.randint(-1, 2, tuple(shape), generator=generator)

        apart = [torch.zeros_like(one) for one in results]
        for _ in range(DRAWS):
            moved = self.run(named, move=move)
            apart = [torch.maximum(one, (a - b).abs()) for one, a, b in zip(apart, moved, results, strict=True)]
        return tuple(
            one.amax().expand(one.shape) + SHARE * right.abs().amax() for one, right in zip(apart, results, strict=True)
        )
