"""Torch operators that coremltools 9.0 lacks or converts wrongly, converted here; in force only while we convert."""

import copy
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

Converter = Callable[[Any, Any], None]


@contextmanager
def own_converters() -> Iterator[None]:
    """Have coremltools use the converters of this module inside, and its own again afterwards."""
    from coremltools.converters.mil.frontend.torch.torch_op_registry import _TORCH_OPS_REGISTRY as registry

    theirs = dict(registry.name_to_func_mapping)
    registry.name_to_func_mapping.update(_converters(theirs))
    try:
        yield
    finally:
        registry.name_to_func_mapping.clear()
        registry.name_to_func_mapping.update(theirs)


def _converters(theirs: dict[str, Converter]) -> dict[str, Converter]:
    """Return our converters by the name of the torch operator; those of coremltools are `theirs`."""
    return {
        "int": _int(theirs["int"]),
        "new_ones": _new_ones,
        "multiply": theirs["mul"],
        "__and__": theirs["bitwise_and"],
        "where.scalarother": theirs["where_scalarself"],
        "lstm.input": _lstm(theirs["lstm"]),
    }


def _int(theirs: Converter) -> Converter:
    """Convert ``aten::Int``: coremltools calls ``int()`` on an array of one axis, which NumPy refuses since 2.4."""

    def convert(context: Any, node: Any) -> None:
        from coremltools.converters.mil import Builder as mb

        x = _inputs(context, node)[0]
        if x.val is not None and x.shape:
            context.add(mb.const(val=int(x.val.item()), name=node.name))
        else:
            theirs(context, node)

    return convert


def _new_ones(context: Any, node: Any) -> None:
    """Convert ``Tensor.new_ones``, which coremltools does not have: ones of the tensor's dtype, or of the one given."""
    from coremltools.converters.mil import Builder as mb
    from coremltools.converters.mil.frontend.torch.ops import _get_kwinputs
    from coremltools.converters.mil.frontend.torch.utils import NUM_TO_NUMPY_DTYPE
    from coremltools.converters.mil.mil.types import nptype_from_builtin

    x, size, *rest = _inputs(context, node)
    given = rest[0] if rest else _get_kwinputs(context, node, "dtype", [None])[0]
    one = (nptype_from_builtin(x.dtype) if given is None else NUM_TO_NUMPY_DTYPE[given.val])(1)
    filled = mb.fill(shape=size, value=one, name=node.name) if len(size.val) else mb.const(val=one, name=node.name)
    context.add(filled)


def _lstm(theirs: Converter) -> Converter:
    """Convert the LSTM of an exported program: one node there gives all three results."""

    def convert(context: Any, node: Any) -> None:
        inner = copy.copy(node)
        inner.outputs = [node.name, f"{node.name}_h", f"{node.name}_c"]
        theirs(context, inner)
        results = tuple(context[name] for name in inner.outputs)
        context.add(results, torch_name=node.name, override=True)

    return convert


def _inputs(context: Any, node: Any) -> list[Any]:
    from coremltools.converters.mil.frontend.torch.ops import _get_inputs

    return _get_inputs(context, node)
