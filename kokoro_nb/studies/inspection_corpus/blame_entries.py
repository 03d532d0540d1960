"""A hundred files of which it is known who is to blame: a graph drawn by the seed, with one thing wrong in it."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from kokoro_nb.inspection import InspectionReport, inspect
from kokoro_nb.inspection.blame import Blame
from kokoro_nb.studies.inspection_corpus.wrong_runtime import wrong_runtime

SHAPE = (2, 8)
PLAIN = ("Tanh", "Sigmoid", "Abs", "Neg", "Softsign", "Sin", "Cos", "Mul", "Add", "MatMul")
OPEN = ("Abs", "Neg", "Mul", "Add")  # which hide nothing that is not finite
SEEDS = 5


@dataclass
class Graph:
    """A chain of nodes on its way to becoming a file; a node appended reads what the last one gave."""

    nodes: list[Any]
    constants: dict[str, np.ndarray]
    dtype: Any
    last: str = "x"

    def append(self, kind: str, *others: Any, name: str = "", **attributes: Any) -> str:
        """Append a node that also reads `others`, names or arrays; return its id."""
        from onnx import helper

        key = name or f"/{len(self.nodes)}/{kind}"
        reads = []
        for k, other in enumerate(others):
            if not isinstance(other, str):
                self.constants[f"{key}/{k}"] = np.asarray(other, self.dtype)
            reads.append(other if isinstance(other, str) else f"{key}/{k}")
        self.nodes.append(helper.make_node(kind, [self.last, *reads], [f"{key}:0"], name=key, **attributes))
        self.last = f"{key}:0"
        return key

    def grow(self, draw: np.random.Generator, count: int, kinds: Sequence[str] = PLAIN) -> None:
        """Append healthy nodes that keep values near 1."""
        for _ in range(count):
            kind = kinds[int(draw.integers(len(kinds)))]
            if kind == "MatMul":
                self.append(kind, draw.standard_normal((SHAPE[1], SHAPE[1])) / SHAPE[1] ** 0.5)
            else:
                self.append(kind, *([draw.uniform(0.5, 1.5, SHAPE[1])] if kind in ("Mul", "Add") else []))

    def save(self, path: Path) -> None:
        """Write it, with the last value as its output."""
        import onnx
        from onnx import helper, numpy_helper

        number = helper.np_dtype_to_tensor_dtype(np.dtype(self.dtype))
        graph = helper.make_graph(
            self.nodes,
            "main_graph",
            [helper.make_tensor_value_info("x", number, SHAPE)],
            [helper.make_tensor_value_info(self.last, number, None)],
            [numpy_helper.from_array(array, name) for name, array in self.constants.items()],
        )
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10), path)


@dataclass(frozen=True)
class Wrong:
    """What is planted: who is to blame, the node that has to be named, and how it is made so.

    Attributes
    ----------
    blame : str
        Who is to blame.
    key : str
        The node; empty where it is an input.
    runtime : context manager
        In which the file is inspected.
    inputs : callable or None
        Changes the inputs.
    """

    blame: Blame
    key: str
    runtime: AbstractContextManager[None] | None = None
    inputs: Callable[[np.ndarray], np.ndarray] | None = None


Plant = Callable[[Graph, np.random.Generator], Wrong]


def scaled_kernel(graph: Graph, draw: np.random.Generator) -> Wrong:
    """Have a kernel give a thousandth too much."""
    return _spoilt(graph, "Tanh", lambda value: value * (1 + 1e-3))


def one_wrong_element(graph: Graph, draw: np.random.Generator) -> Wrong:
    """Have a kernel get one element wrong."""
    place = int(draw.integers(np.prod(SHAPE)))

    def change(value: np.ndarray) -> np.ndarray:
        value.reshape(-1)[place] += 0.1
        return value

    return _spoilt(graph, "Sigmoid", change)


def swapped_rows(graph: Graph, draw: np.random.Generator) -> Wrong:
    """Have a kernel give the rows in the wrong order."""
    return _spoilt(graph, "Softsign", lambda value: value[::-1].copy())


def kernel_of_nan(graph: Graph, draw: np.random.Generator) -> Wrong:
    """Have a kernel give NaN."""
    return _spoilt(graph, "Atan", lambda value: np.full_like(value, np.nan))


def lost_bias(graph: Graph, draw: np.random.Generator) -> Wrong:
    """Have a sum forget half of what it adds."""
    return _spoilt(graph, "Add", lambda value: value - np.asarray(0.25, value.dtype), 0.5)


def nothing_by_nothing(graph: Graph, draw: np.random.Generator) -> Wrong:
    """Divide 0 by 0, whatever goes in."""
    graph.append("Mul", 0.0)
    return Wrong("file", graph.append("Div", 0.0))


def log_of_a_negative(graph: Graph, draw: np.random.Generator) -> Wrong:
    """Take the logarithm of what is below 0, whatever goes in."""
    for kind, others in (("Abs", ()), ("Neg", ()), ("Sub", (1.0,))):
        graph.append(kind, *others)
    return Wrong("file", graph.append("Log"))


def root_of_a_negative(graph: Graph, draw: np.random.Generator) -> Wrong:
    """Take the square root of what is below 0, whatever goes in."""
    for kind, others in (("Abs", ()), ("Neg", ()), ("Sub", (0.5,))):
        graph.append(kind, *others)
    return Wrong("file", graph.append("Sqrt"))


def constant_of_nan(graph: Graph, draw: np.random.Generator) -> Wrong:
    """Hold NaN in a constant."""
    return Wrong("file", graph.append("Mul", [np.nan] * SHAPE[1]))


def infinite_constant(graph: Graph, draw: np.random.Generator) -> Wrong:
    """Add an infinity that the file holds."""
    return Wrong("file", graph.append("Add", [np.inf] * SHAPE[1]))


def exp_beyond_float16(graph: Graph, draw: np.random.Generator) -> Wrong:
    """Take exp of 12 and more in float16."""
    for kind, others in (("Abs", ()), ("Add", (12.0,))):
        graph.append(kind, *others)
    return Wrong("precision", graph.append("Exp"))


def square_beyond_float16(graph: Graph, draw: np.random.Generator) -> Wrong:
    """Square 300 and more in float16."""
    for kind, others in (("Abs", ()), ("Add", (300.0,))):
        graph.append(kind, *others)
    return Wrong("precision", graph.append("Mul", graph.last))


def sum_beyond_float16(graph: Graph, draw: np.random.Generator) -> Wrong:
    """Add up eight of 10,000 in float16."""
    for kind, others in (("Abs", ()), ("Add", (10_000.0,))):
        graph.append(kind, *others)
    return Wrong("precision", graph.append("ReduceSum", keepdims=1))


def reciprocal_beyond_float16(graph: Graph, draw: np.random.Generator) -> Wrong:
    """Divide 1 by less than 1e-5 in float16."""
    for kind, others in (("Sigmoid", ()), ("Mul", (5e-6,))):
        graph.append(kind, *others)
    return Wrong("precision", graph.append("Reciprocal"))


def product_beyond_float16(graph: Graph, draw: np.random.Generator) -> Wrong:
    """Multiply by 30,000 what is 3 and more, in float16."""
    for kind, others in (("Abs", ()), ("Add", (3.0,))):
        graph.append(kind, *others)
    return Wrong("precision", graph.append("Mul", 30_000.0))


def nan_input(graph: Graph, draw: np.random.Generator) -> Wrong:
    """Give an input that is NaN in one place."""

    def change(x: np.ndarray) -> np.ndarray:
        x[0, int(draw.integers(SHAPE[1]))] = np.nan
        return x

    return Wrong("input", "", inputs=change)


def infinite_input(graph: Graph, draw: np.random.Generator) -> Wrong:
    """Give an input that is infinite."""
    return Wrong("input", "", inputs=lambda x: x + np.asarray(np.inf, x.dtype))


def log_of_silence(graph: Graph, draw: np.random.Generator) -> Wrong:
    """Give zeros to a file that takes the logarithm of its input's size."""
    return _of_zeros(graph, "Log")


def one_over_silence(graph: Graph, draw: np.random.Generator) -> Wrong:
    """Give zeros to a file that divides by its input."""
    return _of_zeros(graph, "Reciprocal")


def silence_normalised(graph: Graph, draw: np.random.Generator) -> Wrong:
    """Give zeros to a file that divides its input by its own size."""
    graph.nodes.clear()
    graph.constants.clear()
    graph.last = "x"
    return Wrong("input", graph.append("Div", "x"), inputs=np.zeros_like)


def _of_zeros(graph: Graph, kind: str) -> Wrong:
    graph.nodes.clear()
    graph.constants.clear()
    graph.last = "x"
    graph.append("Abs")
    return Wrong("input", graph.append(kind), inputs=np.zeros_like)


def _spoilt(graph: Graph, kind: str, change: Callable[[np.ndarray], np.ndarray], *others: Any) -> Wrong:
    key = graph.append(kind, *others)
    return Wrong("runtime", key, wrong_runtime(graph.last, change))


PLANTS: dict[Plant, Any] = {
    **dict.fromkeys((scaled_kernel, one_wrong_element, swapped_rows, kernel_of_nan, lost_bias), np.float32),
    **dict.fromkeys(
        (nothing_by_nothing, log_of_a_negative, root_of_a_negative, constant_of_nan, infinite_constant), np.float32
    ),
    **dict.fromkeys(
        (
            exp_beyond_float16,
            square_beyond_float16,
            sum_beyond_float16,
            reciprocal_beyond_float16,
            product_beyond_float16,
        ),
        np.float16,
    ),
    **dict.fromkeys((nan_input, infinite_input, log_of_silence, one_over_silence, silence_normalised), np.float32),
}
"""What can be planted, and the type of the graph."""


@dataclass(frozen=True)
class KnownBlame:
    """One file, and what goes into it."""

    plant: Plant
    seed: int

    @property
    def name(self) -> str:
        """Kind and seed."""
        return f"{self.plant.__name__}-{self.seed}"

    def inspected(self, path: Path) -> tuple[Wrong, InspectionReport]:
        """Write the file, inspect it, and return what is wrong and what was said."""
        draw = np.random.default_rng(self.seed)
        dtype = PLANTS[self.plant]
        graph = Graph([], {}, dtype)
        graph.grow(draw, int(draw.integers(1, 6)))
        wrong = self.plant(graph, draw)
        if wrong.blame in ("runtime", "input"):
            graph.grow(draw, int(draw.integers(1, 4)), OPEN)
        graph.save(path)
        x = draw.standard_normal(SHAPE).astype(dtype)
        inputs = {"x": x if wrong.inputs is None else wrong.inputs(x)}
        with wrong.runtime or nullcontext():
            return wrong, inspect(path, inputs)


KNOWN: tuple[KnownBlame, ...] = tuple(KnownBlame(plant, seed) for plant in PLANTS for seed in range(SEEDS))
