"""A copy of a delivered ONNX file whose audio says what it was computed from: durations, `har`, then the audio.

Two correct runtimes part ways in the source, whose phase is an atan2 of bins that hold little but rounding. From the
same `har` they can be compared number by number, and a client's own runtime shows nothing but its audio.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from kokoro_nb.errors import InputError
from kokoro_nb.models.architecture import SAMPLES_PER_FRAME

CHANNELS = 22  # of `har`: 11 magnitudes and 11 phases


@dataclass(frozen=True)
class TappedAudio:
    """What the tapped file said.

    Attributes
    ----------
    durations : numpy.ndarray, shape (tokens,), int64, frames
    har : numpy.ndarray, shape (1, 22, 120 * frames + 1), float32
    audio : numpy.ndarray, shape (600 * frames,), float32
    """

    durations: np.ndarray
    har: np.ndarray
    audio: np.ndarray


def tap_har(path: Path, out: Path) -> None:
    """Write a copy of an ONNX file of ours to `out` whose waveform is what `read_tapped` reads.

    Raises
    ------
    InputError
        If the file has no joined magnitude and phase.
    """
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    model = onnx.load(path)
    graph, har = model.graph, har_value(model)
    inner = {"waveform": "tapped_audio", "duration": "tapped_duration"}
    for node in graph.node:
        for names in (node.input, node.output):
            for position, name in enumerate(names):
                names[position] = inner.get(name, name)
    graph.initializer.append(numpy_helper.from_array(np.array([-1]), "tapped_flat"))
    make, kind = helper.make_node, TensorProto.FLOAT
    graph.node.extend(
        [
            make("Cast", [inner["duration"]], ["tapped_lasting"], to=kind),
            make("Shape", ["tapped_lasting"], ["tapped_count"]),
            make("Cast", ["tapped_count"], ["tapped_tokens"], to=kind),
            make("Reshape", [har, "tapped_flat"], ["tapped_har"]),
            make("Concat", ["tapped_tokens", "tapped_lasting", "tapped_har", "tapped_audio"], ["waveform"], axis=0),
            make("Identity", [inner["duration"]], ["duration"]),
        ]
    )
    onnx.save(model, out)


def har_value(model: Any) -> str:
    """Return the name of `har` in an ONNX model: a magnitude, which is a root, joined with a phase.

    Raises
    ------
    InputError
        If there is none.
    """
    made = {name: node for node in model.graph.node for name in node.output}
    for node in model.graph.node:
        first = made.get(node.input[0]) if node.op_type == "Concat" and len(node.input) == 2 else None
        if first is not None and first.op_type == "Sqrt":
            return node.output[0]
    raise InputError("The file joins no magnitude with a phase: it is no Kokoro, or was rewritten by an optimiser.")


def read_tapped(audio: np.ndarray) -> TappedAudio:
    """Split what a tapped file said.

    Raises
    ------
    InputError
        If it is something else, or the client has changed it.
    """
    tokens = int(audio[0]) if len(audio) and np.isfinite(audio[0]) else 0
    durations = np.rint(audio[1 : 1 + tokens]).astype(np.int64)
    frames = int(durations.sum()) if (durations >= 0).all() else 0
    size, samples = CHANNELS * (120 * frames + 1), SAMPLES_PER_FRAME * frames
    if not frames or len(audio) != 1 + tokens + size + samples:
        raise InputError(f"{len(audio)} samples are not what a tapped file says; have the client leave it as it is.")
    har = audio[1 + tokens : 1 + tokens + size].reshape(1, CHANNELS, -1)
    return TappedAudio(durations, har, audio[-samples:])
