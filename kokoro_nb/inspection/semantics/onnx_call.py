"""One ONNX operator with its attributes, and the register of what operators mean in float64."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from kokoro_nb.errors import one_line, undocumented
from kokoro_nb.inspection.value_types import Array, Several, Value, Values

SEEN_IN = {"onnx": ("1.17", "1.23")}  # the reference's rounding to small types, which is not documented

MICROSOFT = "com.microsoft"
Meaning = Callable[..., Any]
MEANINGS: dict[tuple[str, str], Meaning] = {}


def _decoded(attributes: Iterable[Any]) -> dict[str, Any]:
    from onnx import helper

    values = {one.name: helper.get_attribute_value(one) for one in attributes}
    return {name: value.decode() if isinstance(value, bytes) else value for name, value in values.items()}


@dataclass(frozen=True, eq=False)
class OnnxCall:
    """One node with everything that it means by itself.

    Attributes
    ----------
    node : onnx.NodeProto
        The node.
    opsets : dict of str to int
        Version of each domain's operators; the standard domain is "".
    dtypes : tuple of numpy.dtype or None
        Types of the inputs as the file has them; None for an absent one or a sequence.
    outer : mapping of str to value
        What the bodies of If, Loop and Scan read from around the node.
    """

    node: Any
    opsets: dict[str, int]
    dtypes: tuple[np.dtype | None, ...] = ()
    outer: Values = field(default_factory=dict)

    @property
    def domain(self) -> str:
        """The domain of the operator; the standard one is ""."""
        return "" if self.node.domain == "ai.onnx" else self.node.domain

    @property
    def operator(self) -> str:
        """The operator's name, with its domain if that is not the standard one."""
        return f"{self.domain}.{self.node.op_type}" if self.domain else self.node.op_type

    @property
    def opset(self) -> int:
        """The version of the operators of its domain."""
        return self.opsets.get(self.domain, 1)

    @cached_property
    def attributes(self) -> dict[str, Any]:
        """The attributes that the node sets, strings decoded."""
        return _decoded(self.node.attribute)

    @property
    def defaults(self) -> dict[str, Any]:
        """What the definition of the operator has for the attributes that a node does not set; empty of one unknown."""
        from onnx import defs

        if not defs.has(self.node.op_type, self.domain):
            return {}
        schema = defs.get_schema(self.node.op_type, self.opset, self.domain)
        return _decoded(one.default_value for one in schema.attributes.values() if one.default_value.type)

    def get(self, name: str, default: Any = None) -> Any:
        """Return an attribute, or its default."""
        return self.attributes.get(name, default)


def meaning(*operators: str, domain: str = "") -> Callable[[Meaning], Meaning]:
    """Register a function ``f(call, *inputs) -> output or tuple of outputs`` as the meaning of these operators."""

    def register(function: Meaning) -> Meaning:
        for operator in operators:
            MEANINGS[domain, operator] = function
        return function

    return register


_SMALL = {"int2": np.int8, "int4": np.int8, "uint2": np.uint8, "uint4": np.uint8}


def widened(value: Value, dtype: Any = np.float64) -> Value:
    """Return floats of any width as `dtype`, small integers as int8 or uint8, everything else as it is."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, list | tuple):
        return [widened(one, dtype) for one in value]
    array = np.asarray(value)
    name = array.dtype.name
    if array.dtype.kind == "f" or name.startswith(("bfloat16", "float")):
        return array.astype(dtype)
    return array.astype(_SMALL.get(name, array.dtype), copy=False)


def dtypes_of(values: Several) -> tuple[np.dtype | None, ...]:
    """Return the type of each value; None of a sequence and of what is absent."""
    return tuple(value.dtype if isinstance(value, np.ndarray | np.generic) else None for value in values)


class NotDefined(Exception):
    """What a node means is not known here; the text says why."""


def computed(call: OnnxCall, inputs: Several, dtype: Any = np.float64) -> list[Value]:
    """Compute a node.

    Parameters
    ----------
    call : OnnxCall
        The node.
    inputs : sequence of numpy.ndarray, list or None
        In the types of the file; a list is a sequence, None is absent.
    dtype : numpy.dtype
        In which floats are computed, whatever the file's own type.

    Raises
    ------
    NotDefined
        If the operator is not known, or refuses its inputs.
    """
    wide = list(inputs) if call.node.op_type == "BitCast" else [widened(value, dtype) for value in inputs]
    defined = MEANINGS.get((call.domain, call.node.op_type))
    try:
        with np.errstate(all="ignore"):
            results = defined(call, *wide) if defined else tuple(by_reference(call, wide))
    except NotDefined:
        raise
    except Exception as error:  # a third party's operator on another's file: anything can come
        raise NotDefined(f"{call.operator} could not be computed in float64: {one_line(error)}") from error
    return [widened(value, dtype) for value in (results if isinstance(results, tuple) else [results])]


def by_reference(call: OnnxCall, inputs: Several) -> list[Value]:
    """Compute a node by onnx's reference implementation, in the types of `inputs`."""
    import onnx
    from onnx import helper
    from onnx.reference import ReferenceEvaluator

    if call.domain not in ("", "ai.onnx.ml", "ai.onnx.preview", "ai.onnx.preview.training"):
        raise NotDefined(f"{call.operator} is an operator of another domain, and not known here")
    if call.node.op_type == "CumSum":  # whose axis runtimes take as a list of one, too
        inputs = [inputs[0], np.reshape(np.asarray(inputs[1]), ())]
    given = {name: value for name, value in zip(call.node.input, inputs, strict=True) if name}
    names = [name for name in call.node.output if name]
    graph = helper.make_graph(
        [call.node], "one", [onnx.ValueInfoProto(name=n) for n in given], [onnx.ValueInfoProto(name=n) for n in names]
    )
    evaluator = ReferenceEvaluator(graph, opsets=call.opsets)
    for name, value in vars(evaluator.rt_nodes_[0]).items():
        if isinstance(value, np.float32):  # an attribute: its square root must not be taken in float32
            setattr(evaluator.rt_nodes_[0], name, float(value))
    results = dict(zip(names, evaluator.run(None, given), strict=True))
    return [results.get(name) for name in call.node.output]


def stored_as(call: OnnxCall, x: Array, to: int) -> Array:
    """Return float32 values in a type of ONNX, given by its number, as the reference rounds and limits them."""
    cast = undocumented("onnx.reference.ops.op_cast", "cast_to", "No cast to such a type is judged", SEEN_IN)
    return cast(x, to, bool(call.get("saturate", 1)))
