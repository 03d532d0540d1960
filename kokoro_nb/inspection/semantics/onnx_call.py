"""One ONNX operator with its attributes and bodies, and the register of what operators mean in float64."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from kokoro_nb.errors import one_line, undocumented
from kokoro_nb.inspection.value_types import Array, Several, Value, Values

SEEN_IN = {"onnx": ("1.17", "1.23")}  # the reference's rounding to small types, which is not documented

LONGEST = 100_000  # passes of a loop after which it is taken for endless
Meaning = Callable[..., Any]
MEANINGS: dict[str, Meaning] = {}
"""By the name of the operator: see `OnnxCall.operator`."""


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


def meaning(*operators: str) -> Callable[[Meaning], Meaning]:
    """Register a function ``f(call, *inputs) -> output or tuple of outputs`` as the meaning of these operators."""

    def register(function: Meaning) -> Meaning:
        MEANINGS.update(dict.fromkeys(operators, function))
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
        return array.astype(dtype, copy=isinstance(array.base, np.ndarray))  # a view holds the whole that it is of
    return array.astype(_SMALL.get(name, array.dtype), copy=False)


def dtypes_of(values: Several) -> tuple[np.dtype | None, ...]:
    """Return the type of each value; None of a sequence and of what is absent."""
    return tuple(value.dtype if isinstance(value, np.ndarray | np.generic) else None for value in values)


def call_on(node: Any, opsets: dict[str, int], values: Values) -> tuple[OnnxCall, list[Value]]:
    """Return an ``onnx.NodeProto`` as a call on some values, with those that it is given."""
    given = [values[name] if name else None for name in node.input]
    return OnnxCall(node, opsets, dtypes_of(given), values), given


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
    defined = MEANINGS.get(call.operator)
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
    from onnx import helper
    from onnx.reference import ReferenceEvaluator

    if call.domain not in ("", "ai.onnx.ml", "ai.onnx.preview", "ai.onnx.preview.training"):
        raise NotDefined(f"{call.operator} is an operator of another domain, and not known here")
    if call.node.op_type == "CumSum":  # whose axis runtimes take as a list of one, too
        inputs = [inputs[0], np.reshape(np.asarray(inputs[1]), ())]
    given = {name: call.outer[name] for name in captured_names(call.node)}
    given |= {name: value for name, value in zip(call.node.input, inputs, strict=True) if name}
    opsets = [helper.make_opsetid(*one) for one in call.opsets.items()]
    evaluator = ReferenceEvaluator(helper.make_function("", "one", [*given], call.node.output, [call.node], opsets))
    for name, value in vars(evaluator.rt_nodes_[0]).items():
        if isinstance(value, np.float32):  # an attribute: its square root must not be taken in float32
            setattr(evaluator.rt_nodes_[0], name, float(value))
    with np.errstate(all="ignore"):
        return list(evaluator.run(None, given, attributes={}))


def stored_as(call: OnnxCall, x: Array, dtype: Any) -> Array:
    """Return float32 values in a type of ONNX as the reference rounds and limits them."""
    from onnx import helper

    to = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    cast = undocumented("onnx.reference.ops.op_cast", "cast_to", "No cast to such a type is judged", SEEN_IN)
    return cast(x, to, bool(call.get("saturate", 1)))


def evaluated_body(call: OnnxCall, body: Any, inputs: Several) -> list[Value]:
    """Compute a body in the types of what it is given.

    Parameters
    ----------
    call : OnnxCall
        The node that it belongs to, for the operators' versions and the values around it.
    body : onnx.GraphProto
        The body.
    inputs : sequence of values
        One for each input of the body.
    """
    from onnx import numpy_helper

    values: dict[str, Value] = dict(call.outer)
    values.update((tensor.name, numpy_helper.to_array(tensor)) for tensor in body.initializer)
    values.update(zip((value.name for value in body.input), inputs, strict=True))
    for node in body.node:
        outputs = computed(*call_on(node, call.opsets, values))
        values.update((name, value) for name, value in zip(node.output, outputs, strict=False) if name)
    return [values[output.name] for output in body.output]


def captured_names(node: Any) -> set[str]:
    """Return the names that the bodies of a node read from around it."""
    read: set[str] = set()
    for body in bodies_of(node):
        known = {value.name for value in (*body.input, *body.initializer)}
        for inner in body.node:
            read |= {*filter(None, inner.input), *captured_names(inner)} - known
            known |= set(inner.output)
        read |= {output.name for output in body.output} - known
    return read


def bodies_of(node: Any) -> list[Any]:
    """Return the graphs among the attributes of a node."""
    return [a.g for a in node.attribute if a.HasField("g")] + [g for a in node.attribute for g in a.graphs]


@meaning("If")
def _if(call: OnnxCall, condition: np.ndarray) -> tuple[Value, ...]:
    chosen = call.get("then_branch" if bool(np.asarray(condition).reshape(())) else "else_branch")
    return tuple(evaluated_body(call, chosen, []))


@meaning("Loop")
def _loop(call: OnnxCall, most: np.ndarray | None, condition: np.ndarray | None, *carried: Value) -> tuple[Value, ...]:
    body = call.get("body")
    limit = LONGEST if most is None else int(np.asarray(most).reshape(()))
    going = True if condition is None else bool(np.asarray(condition).reshape(()))
    state, rows = list(carried), []
    count = 0
    while going and count < limit:
        if count >= LONGEST:
            raise ValueError(f"a loop of more than {LONGEST} passes")
        goes, *results = evaluated_body(call, body, [np.int64(count), np.asarray(going), *state])
        going = bool(np.asarray(goes).reshape(()))
        state, each = results[: len(carried)], results[len(carried) :]
        rows.append(each)
        count += 1
    if rows:
        return (*state, *(np.stack(column) for column in zip(*rows, strict=True)))
    shapes = [output.type.tensor_type.shape for output in body.output[1 + len(carried) :]]  # it was not entered
    return (*state, *(np.zeros((0, *(dim.dim_value for dim in shape.dim))) for shape in shapes))


@meaning("Scan")
def _scan(call: OnnxCall, *inputs: Value) -> tuple[Value, ...]:
    if call.opset < 9:
        raise ValueError("Scan of opset 8")
    body, count = call.get("body"), call.get("num_scan_inputs")
    state, scanned = list(inputs[: len(inputs) - count]), inputs[len(inputs) - count :]
    collected = len(body.output) - len(state)
    in_axes = call.get("scan_input_axes", [0] * count)
    along = zip(scanned, in_axes, call.get("scan_input_directions", [0] * count), strict=True)
    rows = [np.moveaxis(np.asarray(x), axis, 0)[:: 1 - 2 * back] for x, axis, back in along]
    steps: list[list[Value]] = []
    for each in zip(*rows, strict=True):
        results = evaluated_body(call, body, [*state, *each])
        state = results[: len(state)]
        steps.append(results[len(state) :])
    ahead = call.get("scan_output_directions", [0] * collected)
    columns = zip(zip(*steps, strict=True), call.get("scan_output_axes", [0] * collected), ahead, strict=True)
    return (*state, *(np.moveaxis(np.stack(one)[:: 1 - 2 * back], 0, axis) for one, axis, back in columns))
