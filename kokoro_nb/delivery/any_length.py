"""Programs that take a text and frames of any length: nothing is computed in vain.

For ONNX Runtime, and the decoder for XNNPACK, which plans its memory for the longest. TVM compiles for one length,
ExecuTorch unrolls an LSTM for one, and Core ML has none of open length.

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

from kokoro_nb.backends.base import on_rung, quietly
from kokoro_nb.backends.executorch import DELEGATES
from kokoro_nb.backends.executorch.executorch_private import of_executorch
from kokoro_nb.backends.signature import TensorSpec, as_array, named_outputs
from kokoro_nb.delivery.contract import Part
from kokoro_nb.errors import InputError
from kokoro_nb.models.architecture import HARMONICS, SAMPLES_PER_FRAME, STYLE
from kokoro_nb.models.padding import open_length, part_of, widened
from kokoro_nb.models.patches import EXPORT_PATCHES, patched
from kokoro_nb.models.speaking import WholeTextStage
from kokoro_nb.models.stages import DecoderStage, FromHarStage, ProsodyStage, SourceStage

Stage = tuple[str, nn.Module, dict[str, Tensor]]  # name, module, example inputs in the order of its forward
OPSET = 17
Axes = Mapping[str, Mapping[int, str]]  # input or output -> axis -> name of its length
Sizes = Mapping[int, Any]  # axis -> torch.export.Dim, or what is computed of one; empty where all are closed


def second_stage(model: Any, at_har: bool, frames: int, **length: Tensor) -> Iterator[Stage]:
    """Yield each program for so many frames.

    Parameters
    ----------
    model : kokoro.model.KModel
    at_har : bool
        Begin the decoder at `har`, with the source in a program of its own.
    frames : int
    **length : torch.Tensor
        ``length``, shape (1,), int64, where the frames are room for fewer.
    """
    hidden, ref_s = model.predictor.text_encoder.d_model, torch.zeros(1, 2 * STYLE)
    yield "prosody", ProsodyStage(model), {"en": torch.zeros(1, hidden + STYLE, frames), "ref_s": ref_s, **length}
    curves = {name: torch.zeros(1, 2 * frames) for name in ("f0", "n")}
    given = {"asr": torch.zeros(1, hidden, frames), **curves, "s": torch.zeros(1, STYLE)}
    noise = {"harmonic_noise": torch.zeros(1, frames * SAMPLES_PER_FRAME, HARMONICS)}
    if at_har:
        source, pitch = SourceStage(model.decoder), {"f0": curves["f0"], **noise, **length}
        yield "source", source, pitch
        with torch.no_grad(), patched(model, EXPORT_PATCHES):
            har = source(**pitch)
        yield "decoder", FromHarStage(model.decoder), {**given, "har": har, **length}
    else:
        yield "decoder", DecoderStage(model.decoder), {**given, **noise, **length}


HOST = "onnxruntime"  # takes any length in every program
BOUNDED = "executorch-xnnpack"  # in the decoder, up to a length
FILES = {HOST: "onnx", BOUNDED: "pte"}
FRAMES = 7  # of the examples
LEAST = 2  # frames: an axis of one is another program to torch.export
IDS = (0, 16, 43, 44, 0)  # of the first one: no axis has as many as another
# Input or output -> its axis of open length -> what that counts
AXES: Axes = {
    **{name: {1: "tokens"} for name in ("ids", "pred_dur", "d")},
    "t_en": {2: "tokens"},
    **{name: {2: "frames"} for name in ("en", "asr")},
    **{name: {1: "half_frames"} for name in ("f0", "n")},
    "har": {2: "steps"},
    **{name: {1: "samples"} for name in ("harmonic_noise", "output")},
}


def takes_any_length(backend: str, host: str) -> bool:
    """Return whether there are programs of any length for the decoder's backend and that of what comes before it."""
    return backend in FILES and host == HOST


def open_stages(model: Any, at_har: bool) -> Iterator[Stage]:
    """Yield name, module and example inputs of every program: see `export.Delivery`."""
    ids, ref_s = torch.tensor([IDS]), torch.zeros(1, 2 * STYLE)
    yield "duration", WholeTextStage(model), {"ids": ids, "ref_s": ref_s, "speed": torch.ones(1)}
    yield from second_stage(model, at_har, FRAMES)


def open_part(
    name: str, module: nn.Module, inputs: Mapping[str, Tensor], folder: Path, backend: str, most_frames: int
) -> Part:
    """Write a program into a folder of its own in `folder`; return the contract's entry.

    Parameters
    ----------
    name, module, inputs
        See `open_stages`.
    folder : Path
    backend : str
        `HOST`, or `BOUNDED` for a decoder.
    most_frames : int
        That a decoder for the last takes.

    Raises
    ------
    RungError
        If it cannot be exported.
    """
    file = f"{name}/kokoro_{name}.{FILES[backend]}"
    (folder / name).mkdir()
    with torch.no_grad():
        outputs = named_outputs(module(*inputs.values()), getattr(module, "output_names", None))
    if backend == HOST:
        axes = {each: AXES[each] for each in (*inputs, *outputs) if each in AXES}
        write_open_onnx(module, tuple(inputs.values()), tuple(inputs), axes, folder / file)
    else:
        (folder / file).write_bytes(_up_to(module, inputs, most_frames))
    return Part(backend, file, _specs(inputs), _specs(outputs))


def _up_to(module: nn.Module, inputs: Mapping[str, Tensor], most_frames: int) -> bytes:
    """Return a decoder for XNNPACK that takes any number of frames up to that."""
    frames = torch.export.Dim("frames", min=LEAST, max=most_frames)
    open_axes = [_sizes(name, frames) for name in inputs]
    with open_length(module), quietly():
        with on_rung("exported"):
            example = widened(part_of(inputs, 0, LEAST), most_frames)
            program = open_program(module, [*example.values()], open_axes)
        with on_rung("lowered"):
            return lowered_program(program)


def _sizes(name: str, frames: Any) -> dict[int, Any]:
    """Return the size of each open axis of a decoder's input, for a number of frames or what stands for one."""
    counted = {"frames": frames, "half_frames": 2 * frames, "steps": 120 * frames + 1, "samples": 600 * frames}
    return {axis: counted[what] for axis, what in AXES.get(name, {}).items()}


def _specs(tensors: Mapping[str, Tensor]) -> tuple[TensorSpec, ...]:
    arrays = {name: as_array(name, tensor) for name, tensor in tensors.items()}
    return tuple(TensorSpec(name, a.shape, str(a.dtype), tuple(AXES.get(name, ()))) for name, a in arrays.items())


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


def lowered_program(program: Any, methods: Mapping[str, Any] | None = None) -> bytes:
    """Lower what `open_program` returned, with what XNNPACK takes lowered to it; return the ``.pte`` file.

    Parameters
    ----------
    program : torch.export.ExportedProgram
    methods : mapping, optional
        Further methods of the file -> the constants that they return.

    Raises
    ------
    InputError
        If the lowered program does not take the sizes of its example.
    """
    from executorch.exir import to_edge_transform_and_lower

    chain = [DELEGATES["xnnpack"].partitioner()]
    with _any_kernel():
        edge = to_edge_transform_and_lower(program, partitioner=chain, constant_methods=dict(methods or {}))
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
        room, own = [*map(of_executorch("eval_upper_bound"), shape)], list(tensor.shape)
        if room != own:
            raise InputError(f"Lowering narrowed an input of {own} to {room}; export it with other versions.")
