"""The two stages as programs that take a text and frames of any length: no bucket is computed to its end.

For ONNX Runtime alone: ExecuTorch and TVM unroll an LSTM for one length, and Core ML has none of open length.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from kokoro_nb.backends.signature import TensorSpec, as_array, named_outputs
from kokoro_nb.delivery.contract import Part
from kokoro_nb.delivery.open_onnx import write_open_onnx
from kokoro_nb.delivery.second_stage import Stage, second_stage
from kokoro_nb.models.architecture import STYLE
from kokoro_nb.models.complete import WholeTextStage

BACKEND = "onnxruntime"
FRAMES = 7  # of the examples
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


def open_stages(model: Any, at_har: bool) -> Iterator[Stage]:
    """Yield name, module and example inputs of every program: see `export.Delivery`."""
    ids, ref_s = torch.tensor([IDS]), torch.zeros(1, 2 * STYLE)
    yield "duration", WholeTextStage(model), {"ids": ids, "ref_s": ref_s, "speed": torch.ones(1)}
    yield from second_stage(model, at_har, FRAMES)


def open_part(name: str, module: nn.Module, inputs: Mapping[str, Tensor], folder: Path) -> Part:
    """Write a program into a folder of its own in `folder`; return the contract's entry."""
    file = f"{name}/kokoro_{name}.onnx"
    (folder / name).mkdir()
    with torch.no_grad():
        outputs = named_outputs(module(*inputs.values()), getattr(module, "output_names", None))
    axes = {each: AXES[each] for each in (*inputs, *outputs) if each in AXES}
    write_open_onnx(module, tuple(inputs.values()), tuple(inputs), axes, folder / file)
    return Part(BACKEND, file, _specs(inputs), _specs(outputs))


def _specs(tensors: Mapping[str, Tensor]) -> tuple[TensorSpec, ...]:
    arrays = {name: as_array(name, tensor) for name, tensor in tensors.items()}
    return tuple(TensorSpec(name, a.shape, str(a.dtype), tuple(AXES.get(name, ()))) for name, a in arrays.items())
