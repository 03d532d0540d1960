"""The nodes of a graph in order, under the names that viewers know them by."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from kokoro_nb.inspection.semantics.control_flow import bodies_of, captured_names

RANDOM = frozenset(
    {"RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike", "Bernoulli", "Multinomial"}
)


@dataclass(frozen=True, eq=False, slots=True)
class OnnxNode:
    """One node of the outer graph.

    Attributes
    ----------
    index : int
        Its place in the order of execution.
    key : str
        Its id in Model Explorer: its name, with a number behind it if it is not the first of that name.
    proto : onnx.NodeProto
        The node.
    reads : tuple of str
        Names of the values that it reads, with those that its bodies read from around it; no empty ones.
    """

    index: int
    key: str
    proto: Any
    reads: tuple[str, ...]

    @property
    def operator(self) -> str:
        """The operator, with its domain if that is not the standard one."""
        domain = self.proto.domain
        return f"{domain}.{self.proto.op_type}" if domain not in ("", "ai.onnx") else self.proto.op_type

    @property
    def outputs(self) -> tuple[str, ...]:
        """Names of what it gives, as far as they are named."""
        return tuple(name for name in self.proto.output if name)

    @property
    def is_random(self) -> bool:
        """Whether what it gives is drawn."""
        return self.proto.op_type in RANDOM and self.proto.domain in ("", "ai.onnx")


def nodes_of(graph: Any) -> tuple[OnnxNode, ...]:
    """Return the nodes of an ``onnx.GraphProto``, each with the id that Model Explorer's ONNX adapter gives it."""
    found, seen = [], Counter[str]()
    for index, node in enumerate(graph.node):
        name = node.name or "node"
        key = name if not seen[name] else f"{name}_{seen[name]}"
        seen[name] += 1
        inner = {each for body in bodies_of(node) for each in captured_names(body)}
        reads = tuple(dict.fromkeys([*(each for each in node.input if each), *sorted(inner)]))
        found.append(OnnxNode(index, key, node, reads))
    return tuple(found)


def copied(message: Any) -> Any:
    """Return a copy of a model, a graph or a node of ONNX."""
    copy = type(message)()
    copy.CopyFrom(message)
    return copy


def put(held: Any, items: Iterable[Any]) -> None:
    """Put copies of some nodes, or of what else a graph holds, in the place of all of them."""
    copies = [copied(one) for one in items]
    del held[:]
    held.extend(copies)


def typed_inputs(arrays: Mapping[str, Any]) -> list[Any]:
    """Return inputs of a graph, as ``onnx.ValueInfoProto``, of the types of these arrays and of any shape."""
    from onnx import helper

    return [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(one.dtype), None)
        for name, one in arrays.items()
    ]


def draws_inside(node: Any) -> bool:
    """Return whether a body of an ``onnx.NodeProto`` draws at random, however deep."""
    inner = [one for body in bodies_of(node) for one in body.node]
    return any((one.op_type in RANDOM and one.domain in ("", "ai.onnx")) or draws_inside(one) for one in inner)


def freeing(nodes: Iterable[OnnxNode], freed: Mapping[int, list[str]], *held: dict[str, Any]) -> Iterator[OnnxNode]:
    """Yield nodes, and after each let go of what no later one reads: see `last_readers`."""
    for node in nodes:
        yield node
        for name in freed.get(node.index, ()):
            for values in held:
                values.pop(name, None)


def last_readers(nodes: tuple[OnnxNode, ...], outputs: set[str]) -> Mapping[int, list[str]]:
    """Return the values that no later node reads, by the index of the last node that does; outputs stay."""
    last = {}
    for node in nodes:
        for name in (*node.outputs, *node.reads):
            last[name] = node.index
    found: dict[int, list[str]] = {}
    for name, index in last.items():
        if name not in outputs:
            found.setdefault(index, []).append(name)
    return found
