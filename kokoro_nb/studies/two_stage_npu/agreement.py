"""Two delivered stages spoken: against the model that they were made from, by themselves, and in pieces.

Against the model text by text and voice by voice; by themselves as a list of what holds without one.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
import torch
from kokoro.model import KModel

from kokoro_nb.delivery.pipeline import Piece, TwoStages, joined
from kokoro_nb.listening.spectrum import SpectralAgreement, is_judged, log_spectral_distance
from kokoro_nb.listening.waveform import Join, joins
from kokoro_nb.models.architecture import STYLE
from kokoro_nb.models.case import Case, decode
from kokoro_nb.models.kokoro import Kokoro
from kokoro_nb.models.padding import EXTENTS
from kokoro_nb.models.patches import EXPORT_PATCHES, patched
from kokoro_nb.traces.statistics import compare

INPUTS = ("asr", "f0", "n")  # of the decoder, that are predicted
# of the peak: twice the most that float32 did to the package's own modules, 1e-5 (60 texts at full size)
INPUTS_LIMIT = 2e-5


@dataclass(frozen=True)
class TextAgreement:
    """One text in one voice.

    Attributes
    ----------
    text, voice : str
    frames : int
        How long the original model makes it.
    durations : bool
        Whether the duration of every token is the original's.
    asr, f0, n : float
        Largest error of what the decoder is given, of the peak, against the original in float64: two runtimes that
        round differently are further from each other than either is from the truth. NaN where the durations differ.
    rounding : float
        The largest of the same three of the original itself, in float32.
    distance : float
        Log-spectral distance of the audio to the original's on the same noise, dB.
    floor : float
        The same of the original itself, after its pitch was moved up or down by as much as that of the delivery
        differs at most, and by no more than `INPUTS_LIMIT`: atan2 in the source makes as much of any rounding of that
        size, and a fault must not raise its own limit.
    """

    text: str
    voice: str
    frames: int
    durations: bool
    asr: float
    f0: float
    n: float
    rounding: float
    distance: float
    floor: float

    @property
    def inputs(self) -> float:
        """The largest of the three errors of the decoder's inputs."""
        return float(np.max([self.asr, self.f0, self.n]))

    @property
    def distance_limit(self) -> float:
        """What `distance` may be, dB: see `SpectralAgreement`."""
        return SpectralAgreement(self.distance, self.floor).limit

    @property
    def determined(self) -> bool:
        """Whether the spectrum of the audio can be held to the limit, see `is_judged`.

        Where it cannot, only the decoder's inputs, and what it makes from `har` on, say whether the delivery is right.
        """
        return is_judged(self.floor, self.distance_limit)  # of other durations nothing is known, and that is wrong


@dataclass(frozen=True)
class Agreement:
    """Every text in every voice, by the delivery and by the model."""

    texts: tuple[TextAgreement, ...]

    @property
    def worst_inputs(self) -> TextAgreement:
        """The text whose decoder inputs are furthest off."""
        return self.texts[np.argmax([one.inputs for one in self.texts])]

    @property
    def inputs_limit(self) -> float:
        """What the inputs may be off by, of the peak: twice the most that float32 does to them with these weights.

        At least `INPUTS_LIMIT`, which is that of more texts.
        """
        return float(np.max([INPUTS_LIMIT, *(2 * one.rounding for one in self.texts)]))

    @property
    def worst_audio(self) -> TextAgreement | None:
        """The text whose audio is furthest off, measured by what is allowed; None if rounding determines none."""
        texts = [one for one in self.texts if one.determined]
        return texts[np.argmax([one.distance / one.distance_limit for one in texts])] if texts else None

    @property
    def undetermined(self) -> str:
        """Which texts' spectra say nothing, and why, in a sentence; '' if all of them do."""
        texts = [one for one in self.texts if not one.determined]
        floors = ", ".join(f"'{one.text}' by {one.voice or 'the first voice'} {one.floor:.2f} dB" for one in texts)
        return f"rounding alone moves the audio nearly as far as noise does: {floors}" if texts else ""


def against_model(speaker: TwoStages, kokoro: Kokoro, cases: Sequence[Case]) -> Agreement:
    """Have the delivery speak what the model spoke, in the same voice and on the same noise.

    Parameters
    ----------
    kokoro : Kokoro
        What it was made from; without patches.
    cases : sequence of Case
        Each text has room in one piece, and the phonemes that the delivery makes of it; the voices are the folder's.

    Raises
    ------
    InputError
        If a voice or a text has no room.
    """
    from tqdm.auto import tqdm

    with patched(kokoro.model, EXPORT_PATCHES):  # one that has computed cannot be copied before its weights are folded
        precise = deepcopy(kokoro.model).double()
    return Agreement(tuple(_compared(speaker, kokoro, precise, case) for case in tqdm(cases, "texts", unit="text")))


def _compared(speaker: TwoStages, kokoro: Kokoro, precise: KModel, case: Case) -> TextAgreement:
    made = speaker.predict(speaker.symbols(case.text), speaker.table(case.voice))
    if not np.array_equal(made["durations"], case.tensors["durations"].numpy()):
        return TextAgreement(case.text, case.voice, case.frames, False, *6 * (float("nan"),))
    given = speaker.decoder_inputs(made, lambda frames: case.tensors["harmonic_noise"].numpy())
    exact = _exact(precise, case)
    errors = {name: _error(exact[name], given[name]) for name in INPUTS}
    rounding = float(np.max([_error(exact[name], case.tensors[name].numpy()) for name in INPUTS]))
    original = decode(kokoro.model, case, EXPORT_PATCHES)
    moved = _moved(kokoro, case, float(np.minimum(_error(case.tensors["f0"], given["f0"]), INPUTS_LIMIT)))
    audio = speaker.sound(given)[: original.size]
    distance, floor = (log_spectral_distance(original, other) for other in (audio, moved))
    return TextAgreement(
        case.text, case.voice, case.frames, True, **errors, rounding=rounding, distance=distance, floor=floor
    )


def _exact(precise: KModel, case: Case) -> dict[str, torch.Tensor]:
    """Return what the decoder is given by the package's own modules in float64, for durations as they are in float32.

    The lines of `KModel.forward_with_tokens` up to the decoder, and none of this package's: a rewrite that is wrong in
    PyTorch already would else be compared with itself.
    """
    ids, style, lasting = case.tensors["ids"], case.tensors["ref_s"][:, STYLE:].double(), case.tensors["durations"]
    count, nothing = torch.tensor([ids.shape[1]]), torch.zeros_like(ids, dtype=torch.bool)
    predictor = precise.predictor
    with torch.no_grad():
        encoded = precise.bert_encoder(precise.bert(ids, attention_mask=(~nothing).int())).transpose(-1, -2)
        d = predictor.text_encoder(encoded, style, count, nothing)
        f0, n = predictor.F0Ntrain(d.transpose(-1, -2).repeat_interleave(lasting, 2), style)
        asr = precise.text_encoder(ids, count, nothing).repeat_interleave(lasting, 2)
    return dict(zip(INPUTS, (asr, f0, n), strict=True))


def _error(expected: torch.Tensor, found: np.ndarray) -> float:
    return compare(expected.numpy(), found[..., : expected.shape[-1]]).of_peak


def _moved(kokoro: Kokoro, case: Case, error: float) -> np.ndarray:
    """Decode with every pitch `error` of the peak higher or lower."""
    f0 = case.tensors["f0"]
    sign = torch.randn(f0.shape, generator=torch.Generator().manual_seed(case.seed)).sign()
    moved = {**case.tensors, "f0": f0 + error * f0.abs().max() * sign}
    return decode(kokoro.model, replace(case, tensors=moved), EXPORT_PATCHES)


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
    given = speaker.decoder_inputs(speaker.predict(speaker.symbols(text), speaker.table(voice)), speaker.noise(seed))
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
        for extent in EXTENTS.get(spec.name, ()):
            end = extent.length({"frames": frames})
            filled[spec.name] = _from(given[spec.name], extent.axis, end + 1)
            changed[spec.name] = _from(given[spec.name], extent.axis, 0)
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
        return missing.total() - missing[" "]

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
