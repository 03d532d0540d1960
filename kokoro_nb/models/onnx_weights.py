"""Weights out of an ONNX file: each tensor of the model looked for in the graph that an exporter made of it.

Both of torch's exporters leave most parameters under the name that they have in the model, behind the name of the
module that held it. What they rewrite is found by what it is used for: a filter with weight norm is one tensor, a
linear layer's weight is transposed and stands without a name in front of the layer's bias, an LSTM's gates are in
another order. Sources: ONNX's operators LSTM, MatMul and Gemm; torch.nn.LSTM; torch.nn.utils.weight_norm.
"""

from ast import literal_eval
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from kokoro.model import KModel
from torch import Tensor, nn

from kokoro_nb.errors import InputError
from kokoro_nb.models.architecture import build, full_config
from kokoro_nb.models.loading import LoadingReport, build_from, load_state

SCOPES = "pkg.torch.onnx.name_scopes"  # of the exporter by torch.export: paths of modules, then the node's own name
INTEGER_OPERATORS = {"DequantizeLinear", "MatMulInteger", "ConvInteger", "DynamicQuantizeLSTM", "MatMulNBits"}
NOT_READ = ("bert.pooler.weight", "bert.pooler.bias")  # Kokoro takes BERT's states before its pooler
POSITIONS, TYPES = (f"bert.embeddings.{name}_embeddings.weight" for name in ("position", "token_type"))
GATES = (0, 2, 3, 1)  # torch has input, forget, cell, output; ONNX has input, output, forget, cell


class _Graph:
    """The constants of a graph, what Identity nodes call them too, and the nodes that read them."""

    def __init__(self, graph: Any):
        self.nodes = list(graph.node)
        self.dtypes = Counter[str]()
        self.constants: dict[str, Any] = {one.name: one for one in graph.initializer}  # name -> onnx.TensorProto
        for node in graph.node:
            if node.op_type == "Constant":
                value = next((x.t for x in node.attribute if x.name == "value"), None)
                self.constants |= dict.fromkeys(node.output, value)
            elif node.op_type == "Identity" and node.input[0] in self.constants:
                self.constants[node.output[0]] = self.constants[node.input[0]]

    def constant(self, name: str) -> np.ndarray | None:
        """Return a float constant in its own dtype, None where there is none of that name."""
        from onnx import numpy_helper

        if self.constants.get(name) is None:
            return None
        value = numpy_helper.to_array(self.constants[name])
        return value if value.dtype.kind == "f" else None

    def taken(self, value: np.ndarray) -> Tensor:
        """Return a constant as float32, and count what it was stored as."""
        self.dtypes[str(value.dtype)] += 1
        return torch.from_numpy(np.array(value, np.float32, order="C"))


def read_onnx(path: Path) -> Any:
    """Return the ``onnx.ModelProto`` of a file, with the data that lies beside it.

    Raises
    ------
    InputError
        If there is no such file, or it is no whole ONNX model.
    """
    import onnx

    try:
        model = onnx.load(path)
    except FileNotFoundError as error:
        raise InputError(f"There is no file {error.filename or path}; check the path.") from error
    except Exception as error:  # protobuf and onnx each refuse damaged files in their own way
        raise InputError(f"{path.name} is no whole ONNX file ({type(error).__name__}); copy it again.") from error
    if not model.graph.node:
        raise InputError(f"{path.name} is an ONNX file without operators; copy it again.")
    return model


def load_onnx(path: Path) -> tuple[KModel, LoadingReport, str]:
    """Build the model that an ONNX file was exported of, with the file's weights.

    Parameters
    ----------
    path : Path
        With the model's ``config.json`` beside it, if its sizes are not the published ones.

    Returns
    -------
    kokoro.model.KModel
        With a vocabulary out of that ``config.json``, or the published one.
    LoadingReport
        What became of every key.
    str
        Dtype that the weights are stored in.

    Raises
    ------
    InputError
        If there is no such file, it is damaged, or a tensor of the model cannot be recovered from it: each is named in
        the report of the `LoadingError`.
    """
    beside = path.with_name("config.json")
    model = build_from(beside) if beside.is_file() else build(full_config())
    tensors, remarks, stored = recover_state(read_onnx(path), model)
    buffers = {name: value for name, value in model.state_dict().items() if name in dict(model.named_buffers())}
    report = load_state(model, {**buffers, **tensors}, path.name, remarks)
    return model, report, stored


def recover_state(proto: Any, model: KModel) -> tuple[dict[str, Tensor], tuple[str, ...], str]:
    """Find the parameters of `model` in an ONNX model that was exported of one like it.

    Parameters
    ----------
    proto : onnx.ModelProto
        With the data of its tensors.
    model : kokoro.model.KModel
        Of the same sizes; its own weights are not read.

    Returns
    -------
    dict of str to torch.Tensor
        Key of the model's state -> tensor, float32; zeros for what Kokoro's audio does not depend on and the file
        lacks. A linear layer, an LSTM and whatever else is stored as it was is bit for bit the original. Weight norm is
        folded into a filter by the exporter: its direction is the filter and its gain the filter's norm.
    tuple of str
        Each key that could not be recovered and why. InstanceNorm's affine parameters, which no published file has, and
        buffers are not looked for.
    str
        Dtype of most of them in the file: ``float16`` has rounded them.
    """
    graph = _Graph(proto.graph)
    found: dict[str, Tensor] = {}
    prefix = _prefix(graph, model)
    for path, module in model.named_modules():
        if isinstance(module, nn.InstanceNorm1d):
            continue
        for leaf, parameter in module.named_parameters(path, recurse=False):
            value = graph.constant(prefix + leaf)
            if value is not None and value.shape == parameter.shape:
                found[leaf] = graph.taken(value)
        if hasattr(module, "weight_g") and f"{path}.weight_v" not in found:
            value = graph.constant(f"{prefix}{path}.weight")
            if value is not None and value.shape == module.weight_v.shape:
                filters = graph.taken(value)  # with norm: its gain is by output channel
                gain = torch.linalg.vector_norm(filters, dim=(1, 2), keepdim=True)
                found |= {f"{path}.weight_v": filters, f"{path}.weight_g": gain}
    found |= dict(_linear(graph, model, prefix, found))
    found |= dict(_recurrent(graph, model, found))
    found |= _token_type(graph, model, prefix, found)
    parameters = dict(model.named_parameters())
    unread = [name for name in NOT_READ if name not in found]
    found |= {name: torch.zeros_like(parameters[name]) for name in unread}
    integers = sorted({node.op_type for node in graph.nodes} & INTEGER_OPERATORS)
    reason = "the file has no such tensor under its name or its operator's"
    if integers:
        reason = f"the file is quantised ({', '.join(integers)})"
    norms = {path for path, module in model.named_modules() if isinstance(module, nn.InstanceNorm1d)}
    lost = [name for name in parameters if name not in found and name.rpartition(".")[0] not in norms]
    remarks = [f"{name}: not in the file, and not read by Kokoro" for name in unread]
    remarks += [f"{name}: {reason}" for name in lost]
    return found, tuple(remarks), graph.dtypes.most_common(1)[0][0] if graph.dtypes else "none"


def _prefix(graph: _Graph, model: KModel) -> str:
    """Return what stands before the names of most parameters: the wrapper that was exported held the model by it."""
    keys = {name.removesuffix("_v") for name, _ in model.named_parameters()}
    heads = Counter[str]()
    for name in graph.constants:
        parts = name.split(".")
        heads.update(".".join([*parts[:cut], ""]) for cut in range(len(parts)) if ".".join(parts[cut:]) in keys)
    return heads.most_common(1)[0][0] if heads else ""


def _linear(graph: _Graph, model: KModel, prefix: str, found: Mapping[str, Tensor]) -> Iterator[tuple[str, Tensor]]:
    """Yield weights of linear layers that are transposed in front of the layer's own bias."""
    products = {node.output[0]: node for node in graph.nodes if node.op_type == "MatMul"}
    before: dict[str, Any] = {}
    for node in graph.nodes:
        if node.op_type == "Add":
            product = next((products[name] for name in node.input if name in products), None)
            before |= {name: product for name in node.input if name in graph.constants and product is not None}
    for path, module in model.named_modules():
        node = before.get(f"{prefix}{path}.bias")
        if isinstance(module, nn.Linear) and f"{path}.weight" not in found and node is not None:
            value = next((each for each in map(graph.constant, node.input) if each is not None), None)
            if value is not None and value.T.shape == module.weight.shape:
                yield f"{path}.weight", graph.taken(value.T)


def _recurrent(graph: _Graph, model: KModel, found: Mapping[str, Tensor]) -> Iterator[tuple[str, Tensor]]:
    """Yield the parameters of LSTMs, each from the one node of its sizes whose path ends as its own does.

    What an exporter did not fold into the node's own inputs stands under its name and was found by that.
    """
    nodes = [node for node in graph.nodes if node.op_type == "LSTM"]
    for path, module in model.named_modules():
        if not isinstance(module, nn.LSTM) or all(f"{path}.{name}" in found for name, _ in module.named_parameters()):
            continue
        rows, width = (1 + module.bidirectional, 4 * module.hidden_size), module.hidden_size
        sizes = (*rows, module.input_size), (*rows, width), (rows[0], 2 * rows[1])
        fitting: list[tuple[int, list[Any]]] = []
        for node in nodes:
            read = [graph.constant(name) for name in (*node.input[1:4], "", "")[:3]]
            known = [(value.shape, size) for value, size in zip(read, sizes, strict=True) if value is not None]
            ending = _shared_ending(path, _path(node))
            if ending and known and all(shape == size for shape, size in known):
                fitting.append((ending, read))
        best = max((ending for ending, _ in fitting), default=0)
        values = [read for ending, read in fitting if ending == best]
        equal = (a is b or np.array_equal(a, b) for each in values for a, b in zip(values[0], each, strict=True))
        if values and all(equal):
            yield from ((key, value) for key, value in _gates(path, graph, values[0]) if key not in found)


def _token_type(graph: _Graph, model: KModel, prefix: str, found: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return BERT's table of token types where only the row that is read, the first, is left: added to positions."""
    if TYPES in found:
        return {}
    table = torch.zeros_like(dict(model.named_parameters())[TYPES])
    positions = {node.output[0] for node in graph.nodes if prefix + POSITIONS in node.input} | {prefix + POSITIONS}
    for node in graph.nodes:
        row = next((value for name in node.input if (value := graph.constant(name)) is not None), None)
        if node.op_type == "Add" and positions & set(node.input) and row is not None and row.shape == table[0].shape:
            table[0] = graph.taken(row)
            return {TYPES: table}
    return {}


def _path(node: Any) -> list[str]:
    """Return the path of the module that a node was made for, as far as the exporter wrote it down."""
    scopes = next((one.value for one in node.metadata_props if one.key == SCOPES), None)
    if scopes is None:
        return ".".join(node.name.strip("/").split("/")[:-1]).split(".")
    try:
        return literal_eval(scopes)[-2].split(".")
    except (ValueError, SyntaxError, IndexError, AttributeError):
        return []


def _shared_ending(path: str, other: list[str]) -> int:
    """Return how many parts two paths have in common, counted from behind; ``lstm_1`` is a second call in ``lstm``."""
    count = 0
    for mine, theirs in zip(reversed(path.split(".")), reversed(other), strict=False):
        if theirs != mine and theirs.rpartition("_")[0] != mine:
            break
        count += 1
    return count


def _gates(path: str, graph: _Graph, values: list[Any]) -> Iterator[tuple[str, Tensor]]:
    """Yield an LSTM's parameters by torch's names, gates in torch's order."""
    inward, recurrent, bias = values
    biases = [None, None] if bias is None else np.split(bias, 2, axis=1)
    held = {"weight_ih": inward, "weight_hh": recurrent, "bias_ih": biases[0], "bias_hh": biases[1]}
    for name, both in held.items():
        for suffix, value in zip(("l0", "l0_reverse"), () if both is None else both, strict=False):
            gates = np.split(value, 4)
            yield f"{path}.{name}_{suffix}", graph.taken(np.concatenate([gates[gate] for gate in GATES]))
