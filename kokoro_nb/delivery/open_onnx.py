"""ONNX files of any length, written by torch's exporter of TorchScript.

The newer one (``dynamo=True``) keeps an LSTM at the length of the example, and cannot leave a length to the data.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from kokoro_nb.backends.base import quietly

OPSET = 17
Axes = Mapping[str, Mapping[int, str]]  # input or output -> axis -> name of its length


def write_open_onnx(module: nn.Module, example: Sequence[Tensor], names: Sequence[str], axes: Axes, path: Path) -> None:
    """Export `module`, with the patches that are on, to an ONNX file that takes any size of some axes.

    Parameters
    ----------
    module : torch.nn.Module
        Its `output_names` are the file's; ``output`` where it has none.
    example : sequence of torch.Tensor
        Positional arguments of its forward. No open axis should have the size of another one, which a graph might take
        for it.
    names : sequence of str
        Of the inputs.
    axes : mapping
        Which axes are open, of inputs and of outputs.
    path : Path
        The file.
    """
    import onnx

    with torch.no_grad(), quietly():
        torch.onnx.export(
            module.eval(),
            tuple(example),
            str(path),
            dynamo=False,
            opset_version=OPSET,
            input_names=list(names),
            output_names=list(getattr(module, "output_names", ("output",))),
            dynamic_axes={name: dict(each) for name, each in axes.items()},
        )
    model = onnx.load(path)
    _define_phases(model)
    onnx.save(model, path)


def _define_phases(model: Any) -> None:
    """Have an arctangent of two arguments be 0 where both are: torch.onnx divides them, and gives NaN.

    One such bin makes a whole utterance NaN. A divisor of 0 becomes the smallest normal number, which leaves the angle
    of anything else over it at a quarter of a turn.
    """
    from onnx import helper, numpy_helper

    graph, kept, names = model.graph, [], ("phase_zero", "phase_tiny")
    arguments = {node.input[0] for node in graph.node if node.op_type == "Atan"}
    for node in list(graph.node):
        if node.op_type == "Div" and node.output[0] in arguments:
            divisor, empty, defined = node.input[1], f"{node.output[0]}_empty", f"{node.output[0]}_divisor"
            kept.append(helper.make_node("Equal", [divisor, names[0]], [empty]))
            kept.append(helper.make_node("Where", [empty, names[1], divisor], [defined]))
            node.input[1] = defined
        kept.append(node)
    del graph.node[:]
    graph.node.extend(kept)
    values = np.array([0, np.finfo(np.float32).tiny], np.float32)
    graph.initializer.extend(numpy_helper.from_array(value, name) for name, value in zip(names, values, strict=True))
