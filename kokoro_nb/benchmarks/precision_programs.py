"""The decoder in int8, int4 and bfloat16, ready to be called: ONNX Runtime's own, and what eager imitates."""

from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from kokoro_nb.backends import backend
from kokoro_nb.backends.base import Artifact, quietly
from kokoro_nb.backends.onnx import OnnxRuntime
from kokoro_nb.backends.signature import Arrays, checked
from kokoro_nb.backends.taps import read_taps
from kokoro_nb.benchmarks.imitated_precision import (
    LayerEffect,
    audio_of,
    int8_effects,
    rounded_weight,
    tolerant_layers,
    weight_bits,
)
from kokoro_nb.benchmarks.subjects import BASE, export_to, exported_decoder
from kokoro_nb.errors import InputError
from kokoro_nb.models import stages
from kokoro_nb.models.kokoro import Kokoro
from kokoro_nb.models.patches import patched

RUNTIME = "onnxruntime"
STATIC, DYNAMIC = f"{RUNTIME}, int8, static", f"{RUNTIME}, int8, dynamic"
TOLERANT = f"{RUNTIME}, int8, static, tolerant layers"
INT8, INT4, BFLOAT16 = f"{BASE}, int8 weights", f"{BASE}, int4 weights", f"{BASE}, bfloat16 products"
PRECISIONS = (RUNTIME, STATIC, TOLERANT, DYNAMIC, INT8, INT4, BFLOAT16)
CALIBRATION = "The quick brown fox jumps over the lazy dog."  # not what is measured
GROUP = 32  # weights that share a scale of int4
_BITS = {INT8: (8, None), INT4: (4, GROUP)}
Call = Callable[[Arrays], np.ndarray]


@dataclass(frozen=True)
class PrecisionPrograms:
    """The decoder's programs in all precisions, each made when it is called for.

    Static int8 is that of ONNX Runtime's own tools: convolutions, weights per channel, activations by their range over
    another sentence; once of all of them, and once of the `tolerant` ones. Dynamic int8, of products too, takes the
    range of each call. Weights of 8 and 4 bits are rounded and computed with in float32, which shows their error and
    not the time of a kernel for them: 8 bits have a scale for each channel, 4 bits one for each `GROUP` of weights.
    bfloat16 is PyTorch's autocast.

    Attributes
    ----------
    kokoro : Kokoro
        Model and weights.
    stage : type
        `stages.FromHarStage`, or its padded version.
    inputs, calibration : mapping
        Of that stage: an example, and those of another sentence, of the same shapes.
    tolerant : sequence of str
        Convolutions that tolerate int8: see `imitated_precision.tolerant_layers`.
    room : path
        Where quantised programs are written; they are read from there when they are called.
    folder : path, optional
        Where the artefact in float32 is saved.
    """

    kokoro: Kokoro
    stage: type[stages.FromHarStage]
    inputs: Arrays
    calibration: Arrays
    tolerant: Sequence[str]
    room: Path
    folder: str | Path | None = None

    def call(self, name: str) -> tuple[Call, int | None]:
        """Return the program of one precision, inputs -> audio; of static int8 also how many convolutions are in it.

        Parameters
        ----------
        name : str
            Of `PRECISIONS`, or `subjects.BASE` for eager in float32.

        Raises
        ------
        InputError
            If ONNX Runtime cannot be used.
        """
        if name.startswith(BASE):
            return self._eager(name), None
        made, count = self._on_runtime(name)
        program = backend(RUNTIME).load(made)
        return lambda inputs: program.run(inputs)["output"], count

    def _eager(self, name: str) -> Call:
        """Return the decoder in PyTorch; what rounds its weights does so in a copy."""
        if name not in _BITS:
            module = self.stage(self.kokoro.model.decoder)
        else:
            module = folded(self.kokoro, self.stage)
            for layer in module.modules():
                if isinstance(layer, nn.Conv1d | nn.ConvTranspose1d | nn.Linear):
                    turned = isinstance(layer, nn.ConvTranspose1d)  # its inputs come first
                    weight = layer.weight.data.transpose(0, 1) if turned else layer.weight.data
                    made = rounded_weight(weight, *_BITS[name])
                    layer.weight.data = made.transpose(0, 1).contiguous() if turned else made

        def run(inputs: Arrays) -> np.ndarray:
            with torch.autocast("cpu", torch.bfloat16, enabled=name == BFLOAT16):
                return audio_of(module, inputs)

        return run

    @cached_property
    def _made(self) -> Artifact:
        exported = exported_decoder(self.kokoro, self.inputs, self.stage)
        made = export_to(RUNTIME, exported, self.inputs, self.folder)
        if isinstance(made, str):
            raise InputError(f"The decoder cannot be quantised: {made}")
        return made

    def _on_runtime(self, name: str) -> tuple[Artifact, int | None]:
        import onnx

        made = self._made
        if name == RUNTIME:
            return made, None
        if name == DYNAMIC:
            return self._quantised(made, name, None), None
        nodes = {node.output[0]: node for node in onnx.load(str(made.path), load_external_data=False).graph.node}
        if name == STATIC:
            chosen = [node.name for node in nodes.values() if node.op_type == "Conv"]
        else:
            places = read_taps(made.folder).places
            chosen = [nodes[places[f"{layer}:conv1d"]].name for layer in self.tolerant]
        return (self._quantised(made, name, chosen) if chosen else made), len(chosen)

    def _quantised(self, made: Artifact, name: str, chosen: Sequence[str] | None) -> Artifact:
        """Return what ONNX Runtime's tools make of an ONNX file."""
        import onnx
        from onnxruntime import quantization as tools
        from onnxruntime.quantization.shape_inference import quant_pre_process

        with quietly():
            ready, path = self.room / "ready.onnx", self.room / f"{PRECISIONS.index(name)}.onnx"
            if chosen is None:
                onnx.save(_without_shapes(onnx.load(str(made.path))), str(ready))
                tools.quantize_dynamic(str(ready), str(path), per_channel=True, weight_type=tools.QuantType.QInt8)
            else:
                quant_pre_process(str(made.path), str(ready), skip_optimization=True, skip_symbolic_shape=True)
                types = {"activation_type": tools.QuantType.QUInt8, "weight_type": tools.QuantType.QInt8}
                given = {"nodes_to_quantize": list(chosen), "per_channel": True, "quant_format": tools.QuantFormat.QDQ}
                given |= {"reduce_range": weight_bits() == 7}
                tools.quantize_static(str(ready), str(path), _reader(made, self.calibration), **given, **types)
        return replace(made, path=path)


def require_precisions(names: Sequence[str]) -> None:
    """Raise InputError if one of the precisions is none."""
    if unknown := ", ".join(name for name in names if name not in PRECISIONS):
        raise InputError(f"There is no precision '{unknown}'; there are: {'; '.join(PRECISIONS)}.")


def folded(kokoro: Kokoro, stage: type[stages.FromHarStage] = stages.FromHarStage) -> stages.FromHarStage:
    """Return a copy of the decoder, its weights ready to be rounded."""
    with patched(kokoro.model, ("fold_weight_norm",)):
        return stage(deepcopy(kokoro.model.decoder))


def tolerant_of(kokoro: Kokoro, calibration: Arrays) -> tuple[tuple[str, ...], tuple[LayerEffect, ...]]:
    """Return which convolutions tolerate int8 together by that sentence, and its effect on each alone."""
    module = folded(kokoro)
    effects = int8_effects(module, calibration)
    return tolerant_layers(module, calibration, effects), effects


def _without_shapes(model: Any) -> Any:
    """Remove the declared shapes: the tools transpose the weights of Gemm and leave its shape as it was."""
    del model.graph.value_info[:]
    return model


def _reader(made: Artifact, other: Arrays) -> Any:
    """Return a reader that gives ONNX Runtime's tools one set of inputs."""
    from onnxruntime.quantization import CalibrationDataReader

    class Once(CalibrationDataReader):
        def __init__(self) -> None:
            names = (node.name for node in OnnxRuntime(RUNTIME).load(made).session.get_inputs())
            self.given = iter([dict(zip(names, checked(other, made.inputs).values(), strict=True))])

        def get_next(self) -> Mapping[str, np.ndarray] | None:
            return next(self.given, None)

    return Once()
