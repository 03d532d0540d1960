"""The budget of quantised files beside the float files that they were made of, which the budget does not have.

What is true of a layer is what it gives less what the float operator gives on the same input, as ONNX Runtime computes
both; files are paired by the names that the quantisers keep, which is no way for strangers' files but fine for ours.
"""

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from kokoro_nb.inspection.file_run import examined
from kokoro_nb.inspection.one_operator import one_operator
from kokoro_nb.inspection.onnx_file import OnnxFile, read_onnx
from kokoro_nb.inspection.onnx_nodes import nodes_of
from kokoro_nb.inspection.onnx_session import run_session, session_of, tapped
from kokoro_nb.inspection.quantisation_budget import QuantisationBudget
from kokoro_nb.studies.inspection_corpus import file_writers as writers
from kokoro_nb.studies.inspection_corpus.zoo_entries import ZOO, ZooFile

NEAR = 1.0  # dB between what is predicted and what is true
SAME = 0.1  # dB between what ONNX Runtime's debugger says and what the budget says
WANTED = 0.9
LOUDEST = 20 * np.log10(2.0**23)  # dB: what is lost is no longer told apart from float32's own rounding
PRODUCTS = ("Conv", "ConvTranspose", "MatMul", "Gemm")
AFTER = "_DequantizeLinear_Output"


@dataclass(frozen=True)
class Quantiser:
    """A tool, and the files that it writes."""

    name: str
    files: tuple[ZooFile, ...]


QUANTISERS: tuple[Quantiser, ...] = tuple(
    Quantiser(writer.__name__, tuple(one for one in ZOO if one.writer is writer))
    for writer in (writers.qdq_onnx, writers.qoperator_onnx, writers.dynamic_onnx, writers.four_bit_onnx)
)


@dataclass(frozen=True)
class BudgetRow:
    """The layers of the files of one quantiser.

    Attributes
    ----------
    case : str
        The quantiser.
    layers, within : int
        How many layers there are, and how many are predicted within 1 dB of what is true.
    worst : float
        The furthest of them, in dB.
    beyond : tuple of str
        The others, each with its file and by how many dB it is predicted too loud.
    unpaired : int
        Layers without a float operator that they could be held against.
    activations : int
        How many ONNX Runtime's debugger gives a level of.
    furthest : float
        By how much the budget's level differs from that at most, in dB.
    """

    case: str
    layers: int
    within: int
    worst: float
    beyond: tuple[str, ...]
    unpaired: int
    activations: int
    furthest: float

    @property
    def sound(self) -> bool:
        """Whether nine of ten layers are within 1 dB, and every activation within 0.1 dB."""
        return self.within >= WANTED * self.layers > 0 and self.furthest <= SAME


def budget_row(quantiser: Quantiser) -> BudgetRow:
    """Write the files of a quantiser, and hold their budgets against the float files."""
    apart: dict[str, float] = {}
    between: list[float] = []
    layers = 0
    for one in quantiser.files:
        with tempfile.TemporaryDirectory() as room:
            folder = Path(room)
            path, inputs = one.written(folder)
            assert inputs is not None
            file = read_onnx(path)
            budget = examined(file, inputs).budget
            true = true_noise(file, read_onnx(folder / "dynamo.onnx"), inputs, budget)
            between += _between(budget, _debugged(path, inputs, folder)) if one.writer is writers.qdq_onnx else []
        layers += len(budget.layers)
        with np.errstate(all="ignore"):  # of a layer without noise: it is within nothing
            apart |= {
                f"{one.name} {layer.key}": float(10 * np.log10(np.float64(layer.total) / true[layer.key]))
                for layer in budget.layers
                if layer.key in true
            }
    beyond = tuple(f"{key}: {one:+.2f} dB" for key, one in apart.items() if not abs(one) <= NEAR)
    worst = float(np.max(np.abs(list(apart.values())), initial=0.0))
    furthest = float(np.max(between, initial=0.0))
    left = layers - len(apart)
    return BudgetRow(quantiser.name, layers, layers - left - len(beyond), worst, beyond, left, len(between), furthest)


def _between(budget: QuantisationBudget, levels: Mapping[str, float]) -> list[float]:
    """Return by how many dB each level of the debugger differs; NaN where the budget has none."""
    ours = {_plain(value.name): value.level for value in budget.values}
    pairs = [(ours.get(name), level) for name, level in levels.items()]
    return [
        float("nan") if one is None else 0.0 if one > LOUDEST and level > LOUDEST else abs(one - level)
        for one, level in pairs
    ]


def true_noise(
    file: OnnxFile, plain: OnnxFile, inputs: Mapping[str, Any], budget: QuantisationBudget
) -> dict[str, float]:
    """Return the power of what each layer gives less what the float operator gives on its input, by the layer's id.

    The input is the one before it was rounded, but for what another layer gives: that layer has its rounding.
    """
    nodes = list(file.model.graph.node)
    names = [name for node in nodes for name in node.output if name]
    values = {**inputs, **run_session(session_of(tapped(file.model, names)), inputs)}
    floats = {node.outputs[0]: node for node in nodes_of(plain.model.graph) if node.proto.op_type in PRODUCTS}
    results = {layer.key: nodes[layer.index].output[0] for layer in budget.layers}
    found = {}
    for key, result in results.items():
        name = _plain(result)
        given = values.get(f"{name}{AFTER}", values.get(name))
        if name not in floats or given is None:
            continue
        read = {
            one: values.get(f"{one}{AFTER}" if one in results.values() else one, plain.constants.get(one))
            for one in floats[name].reads
        }
        if all(value is not None for value in read.values()):
            right = one_operator(plain, floats[name], read).run()[name]
            found[key] = float(np.square(np.float64(given) - right).mean())
    return found


def _plain(name: str) -> str:
    """Return the name in the float file.

    >>> [_plain(name) for name in ("a_output_quantized", "b_quantized", "c_QuantizeLinear_Input", "d_MatMul_quantized")]
    ['a', 'b', 'c', 'd']
    """
    for ending in ("_quantized", "_output", "_QuantizeLinear_Input", "_MatMul"):
        name = name.removesuffix(ending)
    return name


def _debugged(path: Path, inputs: Mapping[str, Any], folder: Path) -> dict[str, float]:
    """Return the level of each activation by ONNX Runtime's debugger."""
    from onnxruntime.quantization import qdq_loss_debug as debugger

    written = str(folder / "debugged.onnx")
    debugger.modify_model_output_intermediate_tensors(str(path), written)
    pairs = debugger.create_activation_matching(debugger.collect_activations(written, iter([dict(inputs)])))
    level = debugger.compute_signal_to_quantization_noice_ratio
    return {name: float(level(pair["pre_qdq"], pair["post_qdq"])) for name, pair in pairs.items()}
