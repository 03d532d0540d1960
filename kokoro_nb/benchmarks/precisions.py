"""What numbers of fewer bits bring, and what they cost: the decoder in int8, int4 and bfloat16 beside float32."""

from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch
from torch import nn

from kokoro_nb.backends import backend
from kokoro_nb.backends.base import Artifact, Program, quietly
from kokoro_nb.backends.onnx import OnnxRuntime
from kokoro_nb.backends.signature import Arrays, checked
from kokoro_nb.backends.taps import read_taps
from kokoro_nb.benchmarks.decoders import BASE, ROUNDS, decoder_inputs, export_to, exported_decoder, frames_of
from kokoro_nb.benchmarks.integers import Borne, bearing, effects, rounded, sound, weight_bits
from kokoro_nb.benchmarks.timing import LIMIT, Spread, in_turn, ratio, spread
from kokoro_nb.errors import InputError
from kokoro_nb.listening.spectrum import log_spectral_distance
from kokoro_nb.models import stages
from kokoro_nb.models.kokoro import Kokoro
from kokoro_nb.models.patches import patched
from kokoro_nb.numerics.parity import compare

RUNTIME = "onnxruntime"
STATIC, DYNAMIC = f"{RUNTIME}, int8, static", f"{RUNTIME}, int8, dynamic"
BORNE = f"{RUNTIME}, int8, static, where it is borne"
INT8, INT4, BFLOAT16 = f"{BASE}, int8 weights", f"{BASE}, int4 weights", f"{BASE}, bfloat16 products"
PRECISIONS = (RUNTIME, STATIC, BORNE, DYNAMIC, INT8, INT4, BFLOAT16)
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
    layers : int or None
        How many convolutions compute in int8, of static int8.
    """

    program: str
    seconds: Spread
    ratio: Spread
    error: float
    distance: float
    layers: int | None = None

    def as_dict(self) -> dict[str, Any]:
        """Return the row of a table, with units in its keys."""
        told = {"program": self.program, "run (s)": self.seconds.median, "x eager": self.ratio.median}
        told |= {"from": self.ratio.low, "to": self.ratio.high, "rounds": self.ratio.rounds}
        told |= {"error (of peak)": self.error, "log-spectral distance (dB)": self.distance}
        return told if self.layers is None else {**told, "layers in int8": self.layers}


def measure(
    kokoro: Kokoro,
    length: float,
    precisions: Sequence[str] = PRECISIONS,
    rounds: int = ROUNDS,
    seed: int = 0,
    limit: float = LIMIT,
    folder: str | Path | None = None,
) -> tuple[tuple[Reduced, ...], tuple[Borne, ...]]:
    """Time the decoder from `har` in each precision, eager in float32 first in each round.

    Static int8 is that of ONNX Runtime's own tools: convolutions, weights per channel, activations by their range over
    another sentence; once of all of them, and once of those that `integers.bearing` chooses by that sentence. Dynamic
    int8, of products too, takes the range of each call. Weights of 8 and 4 bits are rounded and computed with in
    float32, which tells what they cost and not what a kernel for them brings: 8 bits have a scale for each channel, 4
    bits one for each `GROUP` of weights. bfloat16 is PyTorch's autocast.

    Parameters
    ----------
    kokoro, length, rounds, seed, limit, folder
        See `decoders.measure`.
    precisions : sequence of str
        Of `PRECISIONS`.

    Returns
    -------
    tuple of Reduced, tuple of Borne
        In the order of `precisions`; and what int8 makes of each convolution, where one of them asks for it.

    Raises
    ------
    InputError
        If the length is no good, a precision is unknown, or ONNX Runtime cannot be used.
    """
    if unknown := ", ".join(name for name in precisions if name not in PRECISIONS):
        raise InputError(f"There is no precision '{unknown}'; there are: {'; '.join(PRECISIONS)}.")
    inputs = decoder_inputs(kokoro, frames_of(length), seed)
    on_runtime = [name for name in precisions if name.startswith(RUNTIME)]
    calls, layers = {BASE: _eager(kokoro, BASE, inputs)}, dict[str, int]()
    borne: tuple[Borne, ...] = ()
    with TemporaryDirectory() as room:
        if on_runtime:
            other = decoder_inputs(kokoro, frames_of(length), seed, CALIBRATION)
            made = _exported(kokoro, inputs, folder)
            bearers: tuple[str, ...] = ()
            if BORNE in on_runtime:
                module = _folded(kokoro)
                borne = effects(module, other)
                bearers = bearing(module, other, borne)
            for name in on_runtime:
                program, count = _reduced(name, made, other, bearers, Path(room))
                calls[name] = partial(_sounded, backend(RUNTIME).load(program), inputs)
                layers |= {} if count is None else {name: count}
        calls |= {name: _eager(kokoro, name, inputs) for name in precisions if name.startswith(BASE)}
        audio = {name: call() for name, call in calls.items()}
        times = in_turn(calls, rounds, limit)
    rows = []
    for name in precisions:
        told = compare(audio[BASE], audio[name]).of_peak, log_spectral_distance(audio[BASE][0], audio[name][0])
        rows.append(Reduced(name, spread(times[name]), ratio(times[name], times[BASE]), *told, layers.get(name)))
    return tuple(rows), borne


def _folded(kokoro: Kokoro) -> stages.FromHarStage:
    """Return a copy of the decoder, its weights ready to be rounded."""
    with patched(kokoro.model, ("fold_weight_norm",)):
        return stages.FromHarStage(deepcopy(kokoro.model.decoder))


def _eager(kokoro: Kokoro, name: str, inputs: Arrays) -> Call:
    """Return the decoder in PyTorch; what rounds its weights does so in a copy."""
    if name not in _BITS:
        module = stages.FromHarStage(kokoro.model.decoder)
    else:
        module = _folded(kokoro)
        for layer in module.modules():
            if isinstance(layer, nn.Conv1d | nn.ConvTranspose1d | nn.Linear):
                turned = isinstance(layer, nn.ConvTranspose1d)  # its inputs come first
                weight = layer.weight.data.transpose(0, 1) if turned else layer.weight.data
                made = rounded(weight, *_BITS[name])
                layer.weight.data = made.transpose(0, 1).contiguous() if turned else made

    def run() -> np.ndarray:
        with torch.autocast("cpu", torch.bfloat16, enabled=name == BFLOAT16):
            return sound(module, inputs)

    return run


def _exported(kokoro: Kokoro, inputs: Arrays, folder: str | Path | None) -> Artifact:
    made = export_to(RUNTIME, exported_decoder(kokoro, inputs), inputs, folder)
    if isinstance(made, str):
        raise InputError(f"There is nothing to reduce: {made}")
    return made


def _reduced(
    name: str, made: Artifact, other: Arrays, bearers: Sequence[str], room: Path
) -> tuple[Artifact, int | None]:
    """Return ONNX Runtime's program of one precision, and of static int8 how many convolutions compute in it."""
    import onnx

    if name == RUNTIME:
        return made, None
    if name == DYNAMIC:
        return _quantised(made, name, other, None, room), None
    nodes = {node.output[0]: node for node in onnx.load(str(made.path), load_external_data=False).graph.node}
    if name == STATIC:
        chosen = [node.name for node in nodes.values() if node.op_type == "Conv"]
    else:
        places = read_taps(made.folder).places
        chosen = [nodes[places[f"{layer}:conv1d"]].name for layer in bearers]
    return (_quantised(made, name, other, chosen, room) if chosen else made), len(chosen)


def _sounded(program: Program, inputs: Arrays) -> np.ndarray:
    return program.run(inputs)["output"]


def _quantised(made: Artifact, name: str, other: Arrays, chosen: Sequence[str] | None, room: Path) -> Artifact:
    """Return what ONNX Runtime's tools make of an ONNX file."""
    import onnx
    from onnxruntime import quantization as tools
    from onnxruntime.quantization.shape_inference import quant_pre_process

    with quietly():
        ready, path = room / "ready.onnx", room / f"{PRECISIONS.index(name)}.onnx"
        if chosen is None:
            onnx.save(_without_shapes(onnx.load(str(made.path))), str(ready))
            tools.quantize_dynamic(str(ready), str(path), per_channel=True, weight_type=tools.QuantType.QInt8)
        else:
            quant_pre_process(str(made.path), str(ready), skip_optimization=True, skip_symbolic_shape=True)
            types = {"activation_type": tools.QuantType.QUInt8, "weight_type": tools.QuantType.QInt8}
            given = {"nodes_to_quantize": list(chosen), "per_channel": True, "quant_format": tools.QuantFormat.QDQ}
            given |= {"reduce_range": weight_bits() == 7}
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
