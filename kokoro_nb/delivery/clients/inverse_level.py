"""The level of the inverse STFT in an ONNX file, compared with torch.istft bin by bin."""

from dataclasses import dataclass
from typing import Any

import numpy as np

BINS, HOP, WINDOW = 11, 5, 20
FRAMES = 121
EDGE = WINDOW  # samples at each end, where windows are missing


@dataclass(frozen=True)
class InverseLevel:
    """How loud the inverse STFT of a file is, relative to torch.istft of the same spectrum.

    Attributes
    ----------
    middle : float
        Of bins 1 to 9, within the signal.
    ends : float
        Of the first and the last bin.
    """

    middle: float
    ends: float

    @property
    def exact(self) -> bool:
        """Whether both are 1 within 1 %."""
        return bool(abs(self.middle - 1) < 0.01 and abs(self.ends - 1) < 0.01)


def inverse_level(model: Any) -> InverseLevel | None:
    """Measure the level of the inverse STFT of an ONNX model, or return None where there is none to be found.

    Parameters
    ----------
    model : onnx.ModelProto
        The inverse is what follows ``magnitude * cos(phase)``, to the first output.
    """
    part = inverse_part(model)
    if part is None:
        return None
    middle, ends = np.zeros((1, BINS, FRAMES), np.float32), np.zeros((1, BINS, FRAMES), np.float32)
    draw = np.random.default_rng(0)
    middle[:, 1:-1] = draw.random((1, BINS - 2, FRAMES))
    ends[:, [0, -1]] = draw.random((1, 2, FRAMES))
    return InverseLevel(_gain(part, middle), _gain(part, ends))


def _gain(part: Any, magnitude: np.ndarray) -> float:
    import onnxruntime
    import torch

    session = onnxruntime.InferenceSession(part.SerializeToString(), providers=["CPUExecutionProvider"])
    phase = np.zeros_like(magnitude)  # of the first and last bin only 0 is a signal
    names = [value.name for value in session.get_inputs()]
    ours = session.run(None, dict(zip(names, (magnitude, phase), strict=True)))[0].reshape(-1)
    window = torch.hann_window(WINDOW, periodic=True)
    spectrum = torch.tensor(magnitude, dtype=torch.complex64)
    right = torch.istft(spectrum, WINDOW, HOP, WINDOW, window)[0].numpy()
    within = slice(EDGE, min(len(ours), len(right)) - EDGE)
    return float(ours[within] @ right[within] / (right[within] @ right[within]))


def inverse_part(model: Any) -> Any:
    """Return the part of an ONNX model from magnitude and phase to its first output, or None."""
    from onnx import TensorProto, helper

    graph = model.graph
    made = {name: node for node in graph.node for name in node.output}
    cosines = {node.output[0]: node.input[0] for node in graph.node if node.op_type == "Cos"}
    for product in graph.node:
        turned = [name for name in product.input if name in cosines] if product.op_type == "Mul" else []
        if not turned:
            continue
        (magnitude,) = [name for name in product.input if name != turned[0]]
        phase = cosines[turned[0]]
        outside = _ahead(graph, {value.name for value in graph.input}) - _ahead(graph, {magnitude, phase})
        needed = _behind(made, graph.output[0].name, {magnitude, phase}, outside)
        names = {name for node in needed for name in node.output}
        if product.output[0] not in names or names & {magnitude, phase}:
            continue
        ordered = [
            _of(node, magnitude) if _is_size(node, outside) else node for node in graph.node if names & set(node.output)
        ]
        read, kind, last = {name for node in ordered for name in node.input}, TensorProto.FLOAT, graph.output[0]
        spectrum = [helper.make_tensor_value_info(name, kind, [1, BINS, "frames"]) for name in (magnitude, phase)]
        kept = [tensor for tensor in graph.initializer if tensor.name in read]
        out = [helper.make_tensor_value_info(last.name, last.type.tensor_type.elem_type, None)]
        small = helper.make_graph(ordered, "inverse", spectrum, out, kept)
        return helper.make_model(small, opset_imports=model.opset_import, ir_version=min(model.ir_version, 8))
    return None


def _ahead(graph: Any, values: set[str]) -> set[str]:
    """Return `values` and all that is computed from them."""
    found = set(values)
    for node in graph.node:  # in the order in which they are computed
        if found & set(node.input):
            found |= set(node.output)
    return found


def _is_size(node: Any, outside: set[str]) -> bool:
    """Say whether a node gives the size of a value from elsewhere, such as that of the batch, by which one reshapes."""
    return node.op_type == "Shape" and node.input[0] in outside


def _of(node: Any, value: str) -> Any:
    """Return the same node on another value."""
    changed = type(node).FromString(node.SerializeToString())
    changed.input[0] = value
    return changed


def _behind(made: dict[str, Any], last: str, ends: set[str], outside: set[str]) -> list[Any]:
    """Return the nodes that a value is made by, up to the values `ends` and to sizes of values from `outside`."""
    needed: dict[str, Any] = {}
    queue = [last]
    while queue:
        name = queue.pop()
        node = made.get(name)
        if name in ends or node is None or node.output[0] in needed:
            continue
        needed[node.output[0]] = node
        if not _is_size(node, outside):
            queue += node.input
    return list(needed.values())
