"""One ONNX operator with its attributes, and the register of what operators mean in float64."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

STANDARD = ""
MICROSOFT = "com.microsoft"
Value = Any  # numpy.ndarray, a list of them for a sequence, or None for what is absent
Meaning = Callable[..., Any]
MEANINGS: dict[tuple[str, str], Meaning] = {}


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
    outer: Mapping[str, Value] = field(default_factory=dict)

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
        from onnx import helper

        found = {}
        for attribute in self.node.attribute:
            value = helper.get_attribute_value(attribute)
            found[attribute.name] = value.decode() if isinstance(value, bytes) else value
        return found

    def get(self, name: str, default: Any = None) -> Any:
        """Return an attribute, or its default."""
        return self.attributes.get(name, default)


def meaning(*operators: str, domain: str = STANDARD) -> Callable[[Meaning], Meaning]:
    """Register a function ``f(call, *inputs) -> output or tuple of outputs`` as the meaning of these operators."""

    def register(function: Meaning) -> Meaning:
        for operator in operators:
            MEANINGS[domain, operator] = function
        return function

    return register


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
    if name in ("int4", "int2"):
        return array.astype(np.int8)
    if name in ("uint4", "uint2"):
        return array.astype(np.uint8)
    return array


def as_outputs(results: Any) -> list[Value]:
    """Return what a meaning returned as a list of outputs."""
    return list(results) if isinstance(results, tuple) else [results]


def axes_of(call: OnnxCall, given: Sequence[int] | np.ndarray | None) -> tuple[int, ...] | None:
    """Return the axes of an operator that has them as an attribute, or, in later versions, as an input."""
    axes = call.get("axes") if given is None else given
    return None if axes is None else tuple(int(axis) for axis in np.atleast_1d(axes))


def dtypes_of(values: Sequence[Value]) -> tuple[np.dtype | None, ...]:
    """Return the type of each value; None of a sequence and of what is absent."""
    return tuple(value.dtype if isinstance(value, np.ndarray | np.generic) else None for value in values)
