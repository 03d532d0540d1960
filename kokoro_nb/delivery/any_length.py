"""The two stages as programs that take a text and frames of any length: nothing is computed in vain.

For ONNX Runtime, and the decoder for XNNPACK, which plans its memory for the longest. TVM compiles for one length,
ExecuTorch unrolls an LSTM for one, and Core ML has none of open length.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from kokoro_nb.backends.base import Failure, RungError, on_rung, quietly
from kokoro_nb.backends.executorch import DELEGATES
from kokoro_nb.backends.signature import TensorSpec, as_array, named_outputs
from kokoro_nb.delivery.contract import Part
from kokoro_nb.delivery.open_programs import lowered_program, open_program, write_open_onnx
from kokoro_nb.models.architecture import HARMONICS, SAMPLES_PER_FRAME, STYLE
from kokoro_nb.models.padding import open_length
from kokoro_nb.models.patches import EXPORT_PATCHES, patched
from kokoro_nb.models.speaking import WholeTextStage
from kokoro_nb.models.stages import DecoderStage, FromHarStage, ProsodyStage, SourceStage
from kokoro_nb.models.static_buffers import part_of, widened

Stage = tuple[str, nn.Module, dict[str, Tensor]]  # name, module, example inputs in the order of its forward


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
AXES: Mapping[str, Mapping[int, str]] = {
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
) -> Part | Failure:
    """Write a program into a folder of its own in `folder`; return the contract's entry, or how it failed.

    Parameters
    ----------
    name, module, inputs
        See `open_stages`.
    folder : Path
    backend : str
        `HOST`, or `BOUNDED` for a decoder.
    most_frames : int
        That a decoder for the last takes.
    """
    file = f"{name}/kokoro_{name}.{FILES[backend]}"
    (folder / name).mkdir()
    with torch.no_grad():
        outputs = named_outputs(module(*inputs.values()), getattr(module, "output_names", None))
    try:
        if backend == HOST:
            axes = {each: AXES[each] for each in (*inputs, *outputs) if each in AXES}
            write_open_onnx(module, tuple(inputs.values()), tuple(inputs), axes, folder / file)
        else:
            (folder / file).write_bytes(_up_to(module, inputs, most_frames))
    except RungError as error:
        return error.failure(backend)
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
            return lowered_program(program, [DELEGATES["xnnpack"].partitioner()])


def _sizes(name: str, frames: Any) -> dict[int, Any]:
    """Return the size of each open axis of a decoder's input, for a number of frames or what stands for one."""
    counted = {"frames": frames, "half_frames": 2 * frames, "steps": 120 * frames + 1, "samples": 600 * frames}
    return {axis: counted[what] for axis, what in AXES.get(name, {}).items()}


def _specs(tensors: Mapping[str, Tensor]) -> tuple[TensorSpec, ...]:
    arrays = {name: as_array(name, tensor) for name, tensor in tensors.items()}
    return tuple(TensorSpec(name, a.shape, str(a.dtype), tuple(AXES.get(name, ()))) for name, a in arrays.items())
