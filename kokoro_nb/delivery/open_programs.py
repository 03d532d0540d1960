"""ONNX files of any length, and ExecuTorch programs of any size up to the one that their memory is planned for.

ONNX files are written by torch's exporter of TorchScript: the newer one (``dynamo=True``) keeps an LSTM at the length
of the example, and cannot leave a length to the data.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from kokoro_nb.backends.base import quietly
from kokoro_nb.backends.executorch.executorch_private import of_executorch
from kokoro_nb.errors import InputError

OPSET = 17
Axes = Mapping[str, Mapping[int, str]]  # input or output -> axis -> name of its length
Sizes = Mapping[int, Any]  # axis -> torch.export.Dim, or what is computed of one; empty where all are closed


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


def open_program(module: nn.Module, example: Sequence[Tensor], sizes: Sequence[Sizes]) -> Any:
    """Export a module for every size of some axes.

    Parameters
    ----------
    module : torch.nn.Module
    example : sequence of torch.Tensor
        Positional arguments of its forward, each open axis of the greatest size.
    sizes : sequence of mapping
        The open axes of each argument.

    Returns
    -------
    torch.export.ExportedProgram
    """
    with _any_kernel():
        shapes = tuple(dict(each) or None for each in sizes)
        return torch.export.export(module.eval(), tuple(example), dynamic_shapes=shapes, strict=False)


def lowered_program(program: Any, partitioners: Sequence[Any], methods: Mapping[str, Any] | None = None) -> bytes:
    """Lower what `open_program` returned; return the ``.pte`` file.

    Parameters
    ----------
    program : torch.export.ExportedProgram
    partitioners : sequence of executorch.exir.backend.partitioner.Partitioner
        Of the delegates.
    methods : mapping, optional
        Further methods of the file -> the constants that they return.

    Raises
    ------
    InputError
        If the lowered program does not take the sizes of its example.
    """
    from executorch.exir import to_edge_transform_and_lower

    chain, constants = list(partitioners), dict(methods or {})
    with _any_kernel():
        edge = to_edge_transform_and_lower(program, partitioner=chain, constant_methods=constants)
        _require_room(edge.exported_program(), program.example_inputs[0])
        content: bytes = edge.to_executorch().buffer
    return content


@contextmanager
def _any_kernel() -> Iterator[None]:
    """Turn off MKL-DNN, in which shapes decide which kernel a convolution takes: that narrows their ranges."""
    with torch.no_grad(), torch.backends.mkldnn.flags(enabled=False):
        yield


def _require_room(program: Any, example: Sequence[Tensor]) -> None:
    """Refuse a program whose ranges were narrowed while it was lowered: it would refuse long texts on the device."""
    names = set(program.graph_signature.user_inputs)
    held = [node.meta["val"].shape for node in program.graph.nodes if node.op == "placeholder" and node.name in names]
    for shape, tensor in zip(held, example, strict=True):
        room = [*map(of_executorch("eval_upper_bound"), shape)]
        if room != list(tensor.shape):
            raise InputError(
                f"Lowering narrowed an input of {list(tensor.shape)} to {room}; export it with other versions."
            )
