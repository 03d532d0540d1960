"""ExecuTorch programs that take any size of some axes, up to the one that their memory is planned for."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from kokoro_nb.errors import InputError

Sizes = Mapping[int, Any]  # axis -> torch.export.Dim, or what is computed of one; empty where all are closed


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
    from executorch.exir.sym_util import eval_upper_bound

    names = set(program.graph_signature.user_inputs)
    held = [node.meta["val"].shape for node in program.graph.nodes if node.op == "placeholder" and node.name in names]
    for shape, tensor in zip(held, example, strict=True):
        room = [eval_upper_bound(size) for size in shape]
        if room != list(tensor.shape):
            raise InputError(
                f"Lowering narrowed an input of {list(tensor.shape)} to {room}; export it with other versions."
            )
