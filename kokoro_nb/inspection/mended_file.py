"""A file of which the fewest parts are in float32, found by measuring; and a float32 file in float16 that still sounds.

Candidates are the nodes that the foresight says float16 harms most. As many of them are kept as the limit needs; then
each is withdrawn alone, and stays withdrawn if the limit holds without it. What is left is smallest in this sense: with
any one of them withdrawn the output is below the limit. Every step is a conversion by ONNX Runtime's own tool, measured
twice: run, and computed with each value rounded to the type that the file gives it. ONNX Runtime alone would not do: it
computes many operators of float16 in float32, and passes on what it did not round.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from kokoro_nb.backends.base import quietly
from kokoro_nb.errors import InputError
from kokoro_nb.inspection.file_run import FileRun, examined
from kokoro_nb.inspection.float16_foresight import LARGEST, in_danger
from kokoro_nb.inspection.onnx_file import OnnxFile, in_order
from kokoro_nb.inspection.onnx_model import brief, freeing, last_readers, nodes_of, put, run_once
from kokoro_nb.inspection.semantics.onnx_call import OnnxCall
from kokoro_nb.inspection.value_types import Arrays, Tell, Value, Values, refusing
from kokoro_nb.inspection.whole_file import AUDIBLE, signal_to_noise
from kokoro_nb.locate.search import smallest
from kokoro_nb.markup import number
from kokoro_nb.storage import atomic

FLOOR = 3.0  # dB below the float32 file: twice the power of its own error
HALF = 10  # of onnx.TensorProto.DataType
SMALLEST = 2.0**-24  # of float16; ONNX Runtime's tool moves what is below 1e-7 up to that, unless told otherwise
MEASURED = ("CumSum", "Min", "Max")  # what the tool keeps in float32 unasked, and is left to the measuring here

Measured = Callable[[frozenset[str]], float]


@dataclass(frozen=True)
class MendedFile:
    """A file of which the fewest parts are in float32, found by measuring.

    Levels are those of the worst output over its error, dB: infinite of no error, minus infinity where an output is not
    finite, or the runtime has no such kernel.

    Attributes
    ----------
    parts : str
        What the parts are: ``nodes`` or ``layers``.
    error : str
        Which error is measured, in words.
    kept : tuple of str
        Ids of the parts in float32, in the order of execution.
    withdrawn : dict of str to float
        For each of them the level without it. Each is below the limit.
    plain, mended : float
        The level with no part in float32, and with these.
    limit : float
        The least level, dB.
    count : int
        How many parts could be in float32.
    weights : float
        Of a quantised file the level over what the rounding of the weights makes, by a draw; infinite where it is
        unknown.
    """

    parts: str
    error: str
    kept: tuple[str, ...]
    withdrawn: Mapping[str, float]
    plain: float
    mended: float
    limit: float
    count: int
    weights: float = float("inf")

    @property
    def nearest_miss(self) -> float:
        """The highest level with one of these parts withdrawn, dB; minus infinity if there are none."""
        return float(np.max(list(self.withdrawn.values()), initial=float("-inf")))

    def __str__(self) -> str:
        lost = "" if np.isinf(self.weights) else f"; rounding of weights alone makes {_decibels(self.weights)}"
        plain = f"Level of the outputs over {self.error}: {_decibels(self.plain)}{lost}."
        if not self.kept:
            finer = " The gain is in the weights: a scale for each channel, or more bits." if lost else ""
            return f"{plain} None of the {self.count} {self.parts} has to be in float32.{finer}"
        worst = sorted(self.withdrawn, key=lambda key: self.withdrawn[key])
        each = ", ".join(f"{key}: {_decibels(self.withdrawn[key])}" for key in worst[:8])
        each += ", ..." if len(worst) > 8 else ""
        kept = f"With {len(self.kept)} of {self.count} {self.parts} in float32 {_decibels(self.mended)}"
        return f"{plain} {kept}; with any one of them withdrawn below {_decibels(self.limit)} ({each})."


def _decibels(level: float) -> str:
    if np.isinf(level):
        return "no noise" if level > 0 else "not finite or without a kernel"
    return f"{number(level)} dB"


def mended_file(
    about: tuple[str, str],
    every: Sequence[str],
    made: Callable[[Collection[str]], Any],
    level: Callable[[Any], float],
    limit: float,
    starts: Callable[[Measured], Iterable[Collection[str]]],
    path: str | Path,
    tell: Tell,
) -> MendedFile:
    """Write a model with a smallest set of parts in float32 whose level is not below the limit, and say which.

    Parameters
    ----------
    about : pair of str
        What the parts are, and which error is measured.
    every : sequence of str
        The parts that could be in float32, in the order of execution.
    made : callable
        Returns the model with these parts in float32.
    level : callable
        Returns the level of the outputs of a model, dB.
    limit : float
        The least level, dB.
    starts : callable
        Returns sets of parts, of which the first that reaches the limit is made smaller; it is given what returns the
        level with a set of parts in float32, and measures none twice.
    path : path
        Where the model is written.
    tell : callable
        Is given a line on how far it is.
    """

    @cache
    def measured(kept: frozenset[str]) -> float:
        found = level(made(kept))
        tell(f"{len(kept)} of {len(every)} {about[0]} in float32: {_decibels(found)}")
        return found

    kept = smallest(every, lambda names: measured(frozenset(names)) >= limit, starts(measured))
    with atomic(Path(path)) as draft:
        draft.write_bytes(made(kept).SerializeToString())
    withdrawn = {one: measured(frozenset(kept) - {one}) for one in kept}
    plain, mended = measured(frozenset()), measured(frozenset(kept))
    return MendedFile(*about, kept, withdrawn, plain, mended, limit, len(every))


def lowest_level(outputs: Values, right: Values) -> float:
    """Return the lowest level of the float outputs over their difference, dB; see `MendedFile`.

    An output that is silent in both has no noise; one that is missing, or not finite, gives minus infinity.
    """
    floats = {name: one for name, one in right.items() if isinstance(one, np.ndarray) and one.dtype.kind == "f"}
    levels = (signal_to_noise(np.asarray(outputs[k]), one) if k in outputs else None for k, one in floats.items())
    return float(np.min([-np.inf if one is None else one for one in levels], initial=np.inf))


def float16_mend(seen: FileRun, path: str | Path, limit: float = AUDIBLE, tell: Tell = str) -> MendedFile:
    """Convert a float32 file to float16 with the fewest nodes left in float32, and write it.

    Parameters
    ----------
    seen : FileRun
        A float32 file that draws nothing at random, and the inputs on which it is measured.
    path : path
        Where the mended file is written.
    limit : float
        The least level of every output over its error against float64, dB.
    tell : callable
        Is given a line on how far it is.

    Raises
    ------
    InputError
        If the file cannot be converted, or does not reach the limit with every candidate kept.
    """
    seen = seen if seen.complete else examined(seen.file, seen.inputs)
    file, inputs, right = seen.file, seen.inputs, {name: np.asarray(value) for name, value in seen.true.items()}
    if not right:
        raise InputError(f"{file.path}: what its outputs should be is not known, so that no limit can be measured.")
    defined = {name: right[name] for name in rounded_run(file, inputs) if name in right}
    named, names = deepcopy(file.model), {}
    for node, one in zip(seen.nodes, named.graph.node, strict=True):  # by its name the tool knows a node
        one.name = names[node.key] = f"{node.key}#{node.index}"

    def made(kept: Collection[str]) -> Any:
        return converted(named, [names[key] for key in kept])

    def level(model: Any) -> float:
        try:
            outputs = run_once(model, inputs)
        except InputError:  # it has no such kernel in float16
            return float("-inf")
        strict = rounded_run(replace(file, model=model), inputs)
        return float(np.minimum(lowest_level(outputs, right), lowest_level(strict, defined)))

    def starts(_: Measured) -> Iterator[list[str]]:
        yield []
        harmed = [one.key for one in in_danger(seen.foresight, len(names))]
        ahead = list(dict.fromkeys([*harmed, *names]))  # those that compare, or give integers of floats, come last
        for doubled in range(2, len(ahead).bit_length()):
            yield ahead[: 2**doubled]
        yield ahead
        raise InputError(f"{file.path} does not reach {number(limit)} dB in float16, whatever stays float32.")

    own = level(file.model)
    if own == float("-inf"):
        raise InputError(f"{file.path} is not finite as it is, so that no float16 can be measured; mend that first.")
    limit = limit if own >= limit else own - FLOOR  # a file that is no better itself: its phase may turn on one bit
    return mended_file(("nodes", "their error in float16"), [*names], made, level, limit, starts, path, tell)


def rounded_run(file: OnnxFile, inputs: Arrays) -> dict[str, np.ndarray]:
    """Compute a file of float32 and float16, every result rounded once to its type; return the outputs in float64.

    An output is missing where a node before it has no definition here.
    """
    nodes = nodes_of(file.model.graph)
    freed = last_readers(nodes, {output.name for output in file.model.graph.output})
    values: dict[str, Value] = dict(inputs)
    for node in freeing(nodes, freed, values):
        call, _, results = file.evaluated(node, values) or (OnnxCall(node.proto, {}), [], [])
        floats = [one for one in call.dtypes if one is not None and one.kind == "f"]
        dtype = np.result_type(*floats) if floats else np.dtype(np.float32)
        if node.proto.op_type == "Cast":
            dtype = np.dtype(np.float16 if call.get("to") == HALF else np.float32)
        for name, value in zip(node.proto.output, results, strict=False):
            if name:
                wide = isinstance(value, np.ndarray) and value.dtype == np.float64
                with np.errstate(over="ignore"):
                    values[name] = value.astype(dtype) if wide else value
    return {one.name: values[one.name] for one in file.model.graph.output if one.name in values}


def converted(model: Any, kept: Sequence[str]) -> Any:
    """Return a model in float16 by ONNX Runtime's tool, constants uncut, the nodes `kept` (by name) in float32.

    The tool rounds to float16 between two nodes that it keeps; those casts are taken out.

    Raises
    ------
    InputError
        If the tool refuses the model.
    """
    with quietly():
        from onnxruntime.transformers.float16 import DEFAULT_OP_BLOCK_LIST, convert_float_to_float16

        ends = {"min_positive_val": SMALLEST, "max_finite_val": LARGEST, "keep_io_types": True}
        blocked = [one for one in DEFAULT_OP_BLOCK_LIST if one not in MEASURED]
        with refusing("ONNX Runtime's tool does not convert it to float16: {}", brief):
            half = convert_float_to_float16(deepcopy(model), op_block_list=blocked, node_block_list=list(kept), **ends)
    _unrounded(half.graph)
    in_order(half.graph, Path("the converted file"))
    return half


def _unrounded(graph: Any) -> None:
    """Take out casts that the tool wrote twice, and the pairs of casts from float32 to float16 and back."""
    from onnx import TensorProto

    once = {node.output[0]: node for node in reversed(graph.node)}
    put(graph.node, [node for node in graph.node if node.op_type != "Cast" or once[node.output[0]] is node])
    wide, narrow = TensorProto.FLOAT, TensorProto.FLOAT16
    casts = {node.output[0]: node for node in graph.node if node.op_type == "Cast"}
    to = {name: next(a.i for a in node.attribute if a.name == "to") for name, node in casts.items()}
    for name, node in casts.items():
        while to[name] == wide and to.get(node.input[0]) == narrow:  # it then casts float32 to itself
            node.input[0] = casts[node.input[0]].input[0]
