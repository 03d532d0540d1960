"""What a delivery of two stages has to hold by itself, without the model that it was made from: a list, executed."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from kokoro_nb.delivery.pipeline import TwoStages
from kokoro_nb.traces.statistics import compare

OVER_FRAMES = {"asr": 2, "en": 2, "f0": 1, "n": 1, "har": 2, "harmonic_noise": 1}  # the axis that is padded
FILL = 3.0  # put behind the valid part, where zeros stood: of the size of what is in front of it


@dataclass(frozen=True)
class Check:
    """One line of the list.

    Attributes
    ----------
    kind, claim : str
        Short key, and the claim as a sentence.
    value, limit : float
        What was measured, and the limit.
    relation : str
        How it has to stand to the limit: ``<=`` or ``==``.
    unit : str
    skipped : str
        Why it could not be executed; empty if it was.
    """

    kind: str
    claim: str
    value: float = float("nan")
    limit: float = 0.0
    relation: str = "=="
    unit: str = ""
    skipped: str = ""


def checklist(speaker: TwoStages, text: str, voice: str = "", seed: int = 0) -> tuple[Check, ...]:
    """Execute the list on one text.

    Parameters
    ----------
    text : str
        American English that has room in one piece.
    voice : str
        One of the folder's; the first by default.
    seed : int
        Seed of the source's noise.

    Raises
    ------
    InputError
        If the text or the voice is no good.
    """
    given = _given(speaker, text, voice, seed)
    frames = int(given["length"][0])
    name, room = speaker.bucket(frames)
    audio, rate = speaker.sound(given), speaker.contract.samples_per_frame
    return (
        *_interfaces(speaker),
        Check("finite", "Every sample is finite.", float(np.isfinite(audio).mean()), 1.0),
        Check("length", "There are 600 samples for each frame.", audio.size, room * rate),
        Check("silence", "Behind the end there is silence.", float(np.abs(audio[frames * rate :]).max(initial=0)), 0.0),
        *_leaks(speaker, name, given, audio[: frames * rate]),
        *_repeated(speaker, given, audio),
        *_edges(speaker),
    )


def _given(speaker: TwoStages, text: str, voice: str, seed: int) -> dict[str, np.ndarray]:
    """Return what the delivered decoder is given for a text."""
    return speaker.decoder_inputs(speaker.predict(speaker.symbols(text), speaker.table(voice)), speaker.noise(seed))


def _interfaces(speaker: TwoStages) -> Iterator[Check]:
    """Yield whether each file has the inputs and outputs of the contract, of static shape."""
    import onnx

    contract = speaker.contract
    claim = "takes and gives what the contract says, all of static shape."
    for name, part in contract.parts.items():
        if not part.file.endswith(".onnx"):
            yield Check("interface", f"{name} {claim}", skipped=f"{part.file} is no ONNX file, which says so itself")
            continue
        graph = onnx.load(speaker.folder / part.file, load_external_data=False).graph
        found = {(v.name, *(d.dim_value for d in v.type.tensor_type.shape.dim)) for v in (*graph.input, *graph.output)}
        wrong = found ^ {(spec.name, *spec.shape) for spec in (*part.inputs, *part.outputs)}
        yield Check("interface", f"{name} {claim}", len(wrong), 0)


def _leaks(speaker: TwoStages, name: str, given: dict[str, np.ndarray], audio: np.ndarray) -> Iterator[Check]:
    """Yield whether the padding is ignored, and as a control whether the valid part is read."""
    part = speaker.contract.parts[speaker.contract.part_name("decoder", name)]
    frames = int(given["length"][0])
    filled, changed = dict(given), dict(given)
    for spec in part.inputs:
        if spec.name in OVER_FRAMES:
            axis = OVER_FRAMES[spec.name]
            end = -(-given[spec.name].shape[axis] * frames // speaker.bucket(frames)[1])
            filled[spec.name] = _from(given[spec.name], axis, end + 1)
            changed[spec.name] = _from(given[spec.name], axis, 0)
    for kind, claim, inputs, limit, relation in (
        ("padding", "What stands behind the end is not read.", filled, 1e-6, "<="),
        ("padding control", "What stands before it is.", changed, 1e-2, ">="),
    ):
        error = compare(audio, speaker.sound(inputs)[: audio.size]).of_peak
        yield Check(kind, claim, error, limit, relation, "of peak")


def _from(values: np.ndarray, axis: int, begin: int) -> np.ndarray:
    """Return a copy with `FILL` from `begin` on."""
    copy = values.copy()
    np.moveaxis(copy, axis, 0)[begin:] = FILL
    return copy


def _repeated(speaker: TwoStages, given: dict[str, np.ndarray], audio: np.ndarray) -> Iterator[Check]:
    """Yield whether the answer depends on earlier calls."""
    yield Check("repeated", "The second call gives the same.", float(np.sum(speaker.sound(given) != audio)), 0)
    speaker.sound({key: _from(v, 0, 0) if v.dtype == np.float32 else v for key, v in given.items()})
    yield Check("history", "After constant inputs too.", float(np.sum(speaker.sound(given) != audio)), 0)


def _edges(speaker: TwoStages) -> Iterator[Check]:
    """Yield whether the smallest bucket that has room is chosen, a full one too."""
    rooms = sorted(speaker.contract.buckets.values())
    wrong = sum(speaker.bucket(room)[1] != room for room in rooms)
    wrong += sum(speaker.bucket(room + 1)[1] != more for room, more in pairwise(rooms))
    yield Check("buckets", "The smallest bucket with room is chosen.", wrong, 0)
