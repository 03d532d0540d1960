"""What a delivery of two stages has to hold without its model: a list, executed, and a text too long for one piece."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from kokoro_nb.delivery.pipeline import Piece, TwoStages, joined
from kokoro_nb.listening.joins import Join, joins
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


@dataclass(frozen=True, eq=False)
class SpokenPieces:
    """A long text, spoken in pieces.

    Attributes
    ----------
    symbols : str
        Phonemes of the whole text.
    pieces : tuple of Piece
        What was spoken at once.
    audio : numpy.ndarray, shape (samples,), float32
        The joined speech, full scale 1.
    joins : tuple of Join
        Where two pieces meet.
    sr : int
        Sampling rate in Hz.
    """

    symbols: str
    pieces: tuple[Piece, ...]
    audio: np.ndarray
    joins: tuple[Join, ...]
    sr: int

    @property
    def lost(self) -> int:
        """How many phonemes of the text are in no piece; a space is dropped at each cut."""
        missing = Counter(self.symbols) - Counter("".join(piece.symbols for piece in self.pieces))
        del missing[" "]
        return sum(missing.values())

    @property
    def shortest(self) -> int:
        """The shortest duration of a phoneme, frames."""
        return min(int(piece.durations.min()) for piece in self.pieces)

    @property
    def sharpest(self) -> float:
        """The largest sharpness of a join; NaN without one."""
        return float(np.max([one.sharpness for one in self.joins])) if self.joins else float("nan")

    @property
    def loud_cut(self) -> float:
        """Sharpness where the first piece is cut at its loudest, and the second follows without a fade: the control.

        NaN where the text is spoken in one piece.
        """
        if not self.joins:
            return float("nan")
        first, second = self.pieces[0].audio, self.pieces[1].audio
        half = len(first) // 2
        parts = [first[: half + int(np.argmax(np.abs(first[half:])))], second]
        (cut,) = joins(parts, np.concatenate(parts), self.sr)
        return cut.sharpness

    @property
    def unjudged(self) -> str:
        """Why the sharpness of joins says nothing here; empty where it does."""
        if not self.joins:
            return "the text is spoken in one piece; give a longer one, or shorter buckets"
        if self.loud_cut > 1:
            return ""
        return f"meant for speech with pauses: in this, a hard cut is {self.loud_cut:.2g} times as sharp as the rest"

    def rows(self) -> list[dict[str, float]]:
        """Return a row for each join."""
        return [
            {"join (s)": one.at, "level (dB re loudest)": one.level, "sharpness": one.sharpness} for one in self.joins
        ]


def in_pieces(speaker: TwoStages, text: str, voice: str, seed: int) -> SpokenPieces:
    """Speak `text` in as many pieces as it takes."""
    sr, pieces = speaker.contract.sample_rate, speaker.pieces(text, voice, seed=seed)
    audio = [piece.audio for piece in pieces]
    whole = joined(audio, sr)
    return SpokenPieces(speaker.symbols(text), pieces, whole, joins(audio, whole, sr), sr)
