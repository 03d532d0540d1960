"""What numbers of fewer bits bring, and what they cost: the decoder in int8, int4 and bfloat16 beside float32."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from kokoro_nb.backends import backend
from kokoro_nb.backends.base import Artifact, Program, quietly
from kokoro_nb.backends.onnx import OnnxRuntime
from kokoro_nb.backends.signature import Arrays, checked
from kokoro_nb.benchmarks.decoders import BASE, ROUNDS, decoder_inputs, export_to, exported_decoder, frames_of
from kokoro_nb.benchmarks.timing import LIMIT, Spread, in_turn, ratio, spread
from kokoro_nb.errors import InputError
from kokoro_nb.listening.spectrum import log_spectral_distance
from kokoro_nb.models import stages
from kokoro_nb.models.kokoro import Kokoro
from kokoro_nb.models.patches import patched
from kokoro_nb.numerics.parity import compare

RUNTIME = "onnxruntime"
STATIC, DYNAMIC = f"{RUNTIME}, int8, static", f"{RUNTIME}, int8, dynamic"
INT8, INT4, BFLOAT16 = f"{BASE}, int8 weights", f"{BASE}, int4 weights", f"{BASE}, bfloat16 products"
PRECISIONS = (RUNTIME, STATIC, DYNAMIC, INT8, INT4, BFLOAT16)
CALIBRATION = "The quick brown fox jumps over the lazy dog."  # not what is measured
GROUP = 32  # weights that share a scale of int4
_BITS = {INT8: (8, None), INT4: (4, GROUP)}
Call = Callable[[], np.ndarray]


@dataclass(frozen=True)
class Reduced:
    """The decoder in one precision.

    Attributes
    ----------
    program : str
        Of `PRECISIONS`.
    seconds : Spread
        Of a call: median and quartiles.
    ratio : Spread
        To eager in float32, in the same round.
    error : float
        Largest difference from eager in float32, of its peak.
    distance : float
        Log-spectral distance from it, dB; below 1 dB is called transparent (Paliwal and Atal, 1993).
    """

    program: str
    seconds: Spread
    ratio: Spread
    error: float
    distance: float

    def as_dict(self) -> dict[str, Any]:
        """Return the row of a table, with units in its keys."""
        told = {"program": self.program, "run (s)": self.seconds.median, "x eager": self.ratio.median}
        told |= {"from": self.ratio.low, "to": self.ratio.high, "rounds": self.ratio.rounds}
        return {**told, "error (of peak)": self.error, "log-spectral distance (dB)": self.distance}


def measure(
    kokoro: Kokoro,
    length: float,
    precisions: Sequence[str] = PRECISIONS,
    rounds: int = ROUNDS,
    seed: int = 0,
    limit: float = LIMIT,
    folder: str | Path | None = None,
) -> tuple[Reduced, ...]:
    """Time the decoder from `har` in each precision, eager in float32 first in each round.

    Static int8 is that of ONNX Runtime's own tools: convolutions, weights per channel, activations by their range over
    another sentence; dynamic int8, of products too, takes the range of each call. Weights of 8 and 4 bits are rounded
    and computed with in float32, which tells what they cost and not what a kernel for them brings: 8 bits have a scale
    for each channel, 4 bits one for each `GROUP` of weights. bfloat16 is PyTorch's autocast.

    Parameters
    ----------
    kokoro, length, rounds, seed, limit, folder
        See `decoders.measure`.
    precisions : sequence of str
        Of `PRECISIONS`.

    Raises
    ------
    InputError
        If the length is no good, a precision is unknown, or ONNX Runtime cannot be used.
    """
    if unknown := ", ".join(name for name in precisions if name not in PRECISIONS):
        raise InputError(f"There is no precision '{unknown}'; there are: {'; '.join(PRECISIONS)}.")
    inputs = decoder_inputs(kokoro, frames_of(length), seed)
    calls = {BASE: _eager(kokoro, BASE, inputs)}
    with TemporaryDirectory() as room:
        if any(name.startswith(RUNTIME) for name in precisions):
            other = decoder_inputs(kokoro, frames_of(length), seed, CALIBRATION)
            calls |= _on_runtime(kokoro, inputs, other, precisions, Path(room), folder)
        calls |= {name: _eager(kokoro, name, inputs) for name in precisions if name.startswith(BASE)}
        audio = {name: call() for name, call in calls.items()}
        times = in_turn(calls, rounds, limit)
    rows = []
    for name in precisions:
        told = compare(audio[BASE], audio[name]).of_peak, log_spectral_distance(audio[BASE][0], audio[name][0])
        rows.append(Reduced(name, spread(times[name]), ratio(times[name], times[BASE]), *told))
    return tuple(rows)


def rounded(weight: Tensor, bits: int, group: int | None = None) -> Tensor:
    """Return weights rounded to whole multiples of a scale, the largest of those that share it at the end of the range.

    Parameters
    ----------
    weight : torch.Tensor, shape (outputs, ...), float32
        Of a convolution or a linear layer.
    bits : int
        Of a weight; the range is symmetric, from ``1 - 2 ** (bits - 1)`` on.
    group : int, optional
        How many neighbours share a scale; by default all of an output.
    """
    rows = weight.reshape(len(weight), -1)
    count = rows.shape[1]
    size = count if group is None else min(group, count)
    groups = nn.functional.pad(rows, (0, -count % size)).reshape(len(weight), -1, size)
    scale = groups.abs().amax(-1, keepdim=True).clamp(min=torch.finfo(weight.dtype).tiny) / (2 ** (bits - 1) - 1)
    return ((groups / scale).round() * scale).reshape(len(weight), -1)[:, :count].reshape(weight.shape)


def _eager(kokoro: Kokoro, name: str, inputs: Arrays) -> Call:
    """Return the decoder in PyTorch; what rounds its weights does so in a copy."""
    decoder, bits = kokoro.model.decoder, _BITS.get(name)
    if bits is not None:
        with patched(kokoro.model, ("fold_weight_norm",)):
            decoder = deepcopy(decoder)
        for layer in decoder.modules():
            if isinstance(layer, nn.Conv1d | nn.ConvTranspose1d | nn.Linear):
                turned = isinstance(layer, nn.ConvTranspose1d)  # its inputs come first
                weight = layer.weight.data.transpose(0, 1) if turned else layer.weight.data
                made = rounded(weight, *bits)
                layer.weight.data = made.transpose(0, 1).contiguous() if turned else made
    module = stages.FromHarStage(decoder)

    def run() -> np.ndarray:
        with torch.no_grad(), torch.autocast("cpu", torch.bfloat16, enabled=name == BFLOAT16):
            return np.asarray(module(**inputs).float().numpy())

    return run


def _on_runtime(
    kokoro: Kokoro, inputs: Arrays, other: Arrays, names: Sequence[str], room: Path, folder: str | Path | None
) -> Iterator[tuple[str, Call]]:
    made = export_to(RUNTIME, exported_decoder(kokoro, inputs), inputs, folder)
    if isinstance(made, str):
        raise InputError(f"There is nothing to reduce: {made}")
    for name in names:
        if name.startswith(RUNTIME):
            program = backend(RUNTIME).load(made if name == RUNTIME else _quantised(made, name, other, room))
            yield name, partial(_sounded, program, inputs)


def _sounded(program: Program, inputs: Arrays) -> np.ndarray:
    return program.run(inputs)["output"]


def _quantised(made: Artifact, name: str, other: Arrays, room: Path) -> Artifact:
    """Return what ONNX Runtime's tools make of an ONNX file."""
    import onnx
    from onnxruntime import quantization as tools
    from onnxruntime.quantization.shape_inference import quant_pre_process

    with quietly():
        ready, path = room / "ready.onnx", room / f"{PRECISIONS.index(name)}.onnx"
        if name == DYNAMIC:
            onnx.save(_without_shapes(onnx.load(str(made.path))), str(ready))
            tools.quantize_dynamic(str(ready), str(path), per_channel=True, weight_type=tools.QuantType.QInt8)
        else:
            quant_pre_process(str(made.path), str(ready), skip_symbolic_shape=True)
            types = {"activation_type": tools.QuantType.QUInt8, "weight_type": tools.QuantType.QInt8}
            given = {"op_types_to_quantize": ["Conv"], "per_channel": True, "quant_format": tools.QuantFormat.QDQ}
            tools.quantize_static(str(ready), str(path), _reader(made, other), **given, **types)
    return replace(made, path=path)


def _without_shapes(model: Any) -> Any:
    """Take out what the file tells of shapes: the tools turn the weights of Gemm round, and leave theirs as it was."""
    del model.graph.value_info[:]
    return model


def _reader(made: Artifact, other: Arrays) -> Any:
    """Return what gives ONNX Runtime's tools one set of inputs."""
    from onnxruntime.quantization import CalibrationDataReader

    class Once(CalibrationDataReader):
        def __init__(self) -> None:
            names = (node.name for node in OnnxRuntime(RUNTIME).load(made).session.get_inputs())
            self.given = iter([dict(zip(names, checked(other, made.inputs).values(), strict=True))])

        def get_next(self) -> Mapping[str, np.ndarray] | None:
            return next(self.given, None)

    return Once()
