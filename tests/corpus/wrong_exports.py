"""Exports that are sick by a defect that was released or reported, and healthy ones: what a diagnosis has to say."""

from typing import NamedTuple

import torch

from kokoro_nb.inspection import diagnose
from tests.corpus import forms, programs
from tests.corpus.stale_kernel import StaleKernel


class Sick(NamedTuple):
    """A program, where it runs, the operators that may be named first, what happened there, and who wrote the file."""

    program: object
    backend: str
    culprits: tuple
    mechanism: str
    file: object = None


ONNX, TVM, XNNPACK, MIL = "onnxruntime", "tvm-unfused", "executorch-xnnpack", "coreml-reference-float32"
NORM, OTHER = ("norm:instance_norm",), "operator lowered as another"
PADDED = "padding leaking through statistics"
CODEC = ("first:conv1d", "block:conv1d", "last:conv1d", ":leaky_relu", ":add", ":tanh")
PHASE = (":unsqueeze", ":div", ":mul", ":cumsum", ":mul#2")


def _adaptive(mean, deviation, frames):
    return lambda: programs.adaptive(lambda: mean + deviation * torch.randn(1, 32, frames))


def _below_zero():
    return programs.seeded(programs.SpectralPhase, lambda: {"signal": -1 - torch.rand(1, 200)})


SICK = {
    "offset channels": Sick(programs.offset_channels, TVM, NORM, "one-pass variance"),
    "repeated norm": Sick(_adaptive(1.0, 1, 40), StaleKernel(), NORM, "stale memory"),
    "remainder": Sick(lambda: programs.harmonics("remainder", 2400), MIL, (":remainder",), OTHER),
    "gelu by tanh": Sick(programs.tanh_gelu, XNNPACK, (":gelu",), OTHER),
    "floor of a quotient": Sick(programs.frame_table, ONNX, (":div",), OTHER),
    "phase below zero": Sick(_below_zero, ONNX, (":atan2",), "branch cut of atan2"),
    "phase of silence": Sick(programs.phase_of_silence, ONNX, (":atan2",), "division by zero", forms.legacy_onnx),
    "running phase": Sick(programs.running_phase, "coreml-reference", PHASE, "accumulated phase"),
    "loud norm": Sick(_adaptive(0.0, 200, 64), "coreml-reference-strict", NORM, "overflow of the dtype"),
    "drawn noise": Sick(programs.drawn_noise, TVM, (":randn",), "baked-in random numbers"),
    "constant beyond float16": Sick(programs.pitch_features, ONNX, (":div",), "changed constant", forms.float16_onnx),
    "quiet calibration": Sick(programs.mel, ONNX, CODEC, "quantisation range", forms.calibrated_onnx),
    "number of a trace": Sick(programs.pooled_lstm, ONNX, (":div",), "frozen length", forms.frozen_onnx),
    "backward LSTM": Sick(programs.backward_lstm, ONNX, ("lstm:lstm",), PADDED),
    "padded norm": Sick(programs.padded_norm, ONNX, NORM, PADDED),
    "unweighted windows": Sick(programs.unweighted, ONNX, (":select",), "changed scale"),
    "padded at the left": Sick(programs.left_padded, ONNX, ("1:conv_transpose1d",), "changed layout or shift"),
}
HEALTHY = {
    "attentive": (programs.attentive, (ONNX, TVM, XNNPACK, MIL)),
    "harmonics": (lambda: programs.harmonics("floor", 2400), (ONNX, XNNPACK)),
    "tokens": (lambda: programs.backward_lstm()[2], (ONNX,)),
}


def diagnosed(sick, folder):
    """Return the diagnosis of a wrong export."""
    module, inputs, *reference = sick.program()
    file = sick.file(module, inputs, folder / "model.onnx") if sick.file else None
    return diagnose(module, inputs, sick.backend, *reference, artefact=file, folder=folder / "made")
