"""Where each length that is not fixed comes from: an axis of an input, or the node that makes it of values.

It is found by trying. The file is run on other values of the same shapes, and on inputs that are shorter along each of
their open axes, and the shapes of all values are read, not the values. A length that differs between two runs although
everything that its node reads has the same shape in both was made of values, by that node. Any other length that
differs is traced to the first one that it is a multiple of, plus a constant, in every run.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from kokoro_nb.errors import InputError
from kokoro_nb.inspection.onnx_file import OnnxFile
from kokoro_nb.inspection.onnx_nodes import OnnxNode, nodes_of
from kokoro_nb.inspection.onnx_session import run_session, session_of
from kokoro_nb.inspection.references import varied
from kokoro_nb.inspection.whole_file import named_constants
from kokoro_nb.markup import number

SEEDS = (1, 2)  # of other values
SHORTER = (1, 3)  # by which an open axis is cut, as far as it is long enough
PREFIX = "shape of "  # of the outputs that tell shapes
NAMED = 8  # lengths of a sentence

MAKERS = frozenset(("NonZero", "Unique", "Compress", "NonMaxSuppression", "Loop", "If"))
SIZED = frozenset(("Expand", "Resize", "Upsample", "Tile", "Slice", "Pad", "Reshape", "OneHot"))
"""Operators that make lengths of values: always, and where what follows their first input is no constant."""

Shapes = dict[str, tuple[int, ...]]


@dataclass(frozen=True)
class OpenLength:
    """A length that is not fixed.

    Attributes
    ----------
    value : str
        Name of the value.
    axis : int
        The axis.
    length : int
        How long it is on the inputs that were given.
    origin : str
        In words, where the length comes from.
    times, plus : float
        The length is `times` the one that it comes from, plus this; both NaN if no such two fit.
    key : str
        Id of the node that makes it of values; empty if it is an input's.
    """

    value: str
    axis: int
    length: int
    origin: str
    times: float
    plus: float
    key: str = ""

    def __str__(self) -> str:
        factor = "" if self.times == 1 else f"{number(self.times)} times "
        more = "" if not self.plus else f" {'plus' if self.plus > 0 else 'less'} {number(abs(self.plus))}"
        how = f"{factor}{self.origin}{more}" if np.isfinite(self.times) else f"not a multiple of {self.origin}"
        return f"axis {self.axis} of '{self.value}' ({self.length:,}) is {how}"


def open_lengths(
    file: OnnxFile, inputs: Mapping[str, np.ndarray], names: Sequence[str]
) -> tuple[tuple[OpenLength, ...], tuple[str, ...]]:
    """Trace every length that is not fixed.

    Parameters
    ----------
    file : OnnxFile
        The file as it is.
    inputs : mapping of str to numpy.ndarray
        On which it runs.
    names : sequence of str
        The tensors among its values.

    Returns
    -------
    tuple of OpenLength
        In the order of execution, the inputs' first.
    tuple of str
        Which lengths could not be tried, in sentences.
    """
    session = session_of(_with_shapes(file.model, names), shapes_early=True)
    runs = [_shapes(session, inputs)]
    refused: list[str] = []
    for seed in SEEDS:
        with _tried(refused, "on other values"):
            runs.append(_shapes(session, varied(inputs, seed)))
    for name, cut in _cuts(file, inputs):
        with _tried(refused, f"with {name} shorter"):
            runs.append(_shapes(session, cut))
    return tuple(_traced(nodes_of(file.model.graph), list(inputs), runs)), tuple(dict.fromkeys(refused))


@contextmanager
def _tried(refused: list[str], what: str) -> Iterator[None]:
    """Note a run that the runtime refuses."""
    try:
        yield
    except InputError as error:
        refused.append(f"Lengths could not be tried {what}: {error}")


def may_differ(file: OnnxFile) -> bool:
    """Return whether any length may differ from run to run: an open axis of an input, or a node that makes lengths."""
    known = named_constants(file)
    if any(not dim.HasField("dim_value") for one in file.inputs for dim in one.type.tensor_type.shape.dim):
        return True
    for node in nodes_of(file.model.graph):
        kind, sizes = node.proto.op_type, list(node.proto.input[1:] if node.proto.op_type in SIZED else ())
        sizes += list(node.proto.input) if kind in ("Range", "ConstantOfShape") else []
        if kind in MAKERS or any(name and name not in known for name in sizes):
            return True
    return False


def _with_shapes(model: Any, names: Sequence[str]) -> Any:
    """Return a copy that gives the shapes of these values and nothing else."""
    import onnx
    from onnx import helper

    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    del copy.graph.output[:]
    for name in names:
        copy.graph.node.append(helper.make_node("Shape", [name], [PREFIX + name]))
        copy.graph.output.append(helper.make_tensor_value_info(PREFIX + name, onnx.TensorProto.INT64, None))
    return copy


def _shapes(session: Any, inputs: Mapping[str, np.ndarray]) -> Shapes:
    found = {name: array.shape for name, array in inputs.items()}
    for name, value in run_session(session, inputs).items():
        found[name.removeprefix(PREFIX)] = tuple(int(size) for size in value)
    return found


def _cuts(file: OnnxFile, inputs: Mapping[str, np.ndarray]) -> Iterator[tuple[str, dict[str, np.ndarray]]]:
    """Yield inputs that are shorter along the axes of one name, with that name; a nameless axis goes by itself."""
    axes: dict[str, list[tuple[str, int]]] = {}
    for value in file.inputs:
        for axis, dim in enumerate(value.type.tensor_type.shape.dim):
            if not dim.HasField("dim_value"):
                axes.setdefault(dim.dim_param or f"axis {axis} of '{value.name}'", []).append((value.name, axis))
    for name, places in axes.items():
        for less in SHORTER:
            if all(inputs[one].shape[axis] > less for one, axis in places):
                cut = dict(inputs)
                for one, axis in places:
                    kept = np.arange(cut[one].shape[axis] - less)
                    cut[one] = np.take(cut[one], kept, axis=axis)
                yield name, cut


def _traced(nodes: Sequence[OnnxNode], inputs: Sequence[str], runs: Sequence[Shapes]) -> Iterator[OpenLength]:
    origins: list[tuple[np.ndarray, str, str]] = []  # a length in each run, where it comes from, and which node made it
    for name in inputs:
        for axis, sizes in enumerate(_sizes(name, runs)):
            if (sizes != sizes[0]).any() and not any((one == sizes).all() for one, _, _ in origins):
                origins.append((sizes, f"axis {axis} of the input '{name}'", ""))
    for name in inputs:
        yield from _of(name, runs, origins)
    for node in nodes:
        for name in node.outputs:
            for axis, sizes in enumerate(_sizes(name, runs)):
                if _by_values(node, sizes, runs) and not any(_fits(one, sizes) for one, _, _ in origins):
                    made = f"what {node.key} ({node.operator}) makes of values, axis {axis} of '{name}'"
                    origins.append((sizes, made, node.key))
            yield from _of(name, runs, origins)


def _sizes(name: str, runs: Sequence[Shapes]) -> list[np.ndarray]:
    """Return each axis of a value as its sizes in all runs; nothing if it is not of one rank in all."""
    shapes = [run.get(name) for run in runs]
    if any(one is None for one in shapes) or len({len(one) for one in shapes if one is not None}) != 1:
        return []
    return [np.array(sizes, np.float64) for sizes in zip(*(one for one in shapes if one is not None), strict=True)]


def _by_values(node: OnnxNode, sizes: np.ndarray, runs: Sequence[Shapes]) -> bool:
    """Return whether a length differs between two runs in which everything that the node reads has the same shape."""
    seen: dict[tuple[Any, ...], float] = {}
    for run, size in zip(runs, sizes, strict=True):
        if seen.setdefault(tuple(run.get(name) for name in node.reads), size) != size:
            return True
    return False


def _fits(origin: np.ndarray, sizes: np.ndarray) -> tuple[float, float] | None:
    """Return by which factor and which constant a length follows from another one in every run; None if by none."""
    low, high = int(np.argmin(origin)), int(np.argmax(origin))
    if origin[low] == origin[high]:
        return None
    times = float((sizes[high] - sizes[low]) / (origin[high] - origin[low]))
    plus = float(sizes[low] - times * origin[low])
    fits = times != 0 and np.abs(times * origin + plus - sizes).max() < 1e-6 * np.abs(sizes).max()
    return (times, round(plus, 6)) if fits else None


def _of(name: str, runs: Sequence[Shapes], origins: Sequence[tuple[np.ndarray, str, str]]) -> Iterator[OpenLength]:
    for axis, sizes in enumerate(_sizes(name, runs)):
        if (sizes == sizes[0]).all():
            continue
        fitting = ((_fits(one, sizes), words, key) for one, words, key in origins)
        found = next((one for one in fitting if one[0] is not None), None)
        if found is not None and found[0] is not None:
            yield OpenLength(name, axis, int(sizes[0]), found[1], *found[0], found[2])
        else:
            words = ", nor of ".join(one for _, one, _ in origins) or "any that is known"
            yield OpenLength(name, axis, int(sizes[0]), words, float("nan"), float("nan"))


def lengths_noted(lengths: Sequence[OpenLength], outputs: Sequence[str]) -> tuple[str, ...]:
    """Return in sentences where the lengths of the outputs come from, and which nodes make lengths of values."""
    found = [str(one) for one in lengths if one.value in outputs]
    makers = dict.fromkeys(one.key for one in lengths if one.key)
    notes = []
    if found:
        rest = f", and {len(found) - NAMED:,} more" if len(found) > NAMED else ""
        notes.append(f"Open lengths: {'; '.join(found[:NAMED])}{rest}.")
    if makers:
        names = ", ".join([*makers][:NAMED])
        notes.append(f"Lengths are made of values by {names}: nothing of these is known before the file runs.")
    return tuple(notes)
