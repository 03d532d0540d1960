"""05: whether a speech recogniser hears the same words in every version, and which faults it misses.

Each fault is made where an export makes it, on the eager model, so that nothing else differs from the package's audio.
"""

import copy
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from kokoro.model import KModel
from torch.utils._python_dispatch import TorchDispatchMode

from kokoro_nb.delivery.export import speak_all
from kokoro_nb.errors import InputError
from kokoro_nb.listening.comparison import FINITE
from kokoro_nb.listening.judges import PerceivedQuality, identified, perceived_quality, unknown_words
from kokoro_nb.listening.recogniser import load_whisper, whisper_available
from kokoro_nb.listening.transcript import PHRASES, Transcript, Word, doubts, phrase_error_rate, spoken_texts
from kokoro_nb.models import noise, stages
from kokoro_nb.models.architecture import SAMPLE_RATE, SAMPLES_PER_FRAME
from kokoro_nb.models.case import Case, decode
from kokoro_nb.models.padding import widened
from kokoro_nb.models.patches import EXPORT_PATCHES, patched
from kokoro_nb.studies.waveform_spectrum import PACKAGE


def listener(model: str) -> tuple[Any, str]:
    """Return openai-whisper's model of that name or path, or None and why it is not here."""
    reason = whisper_available(model)
    return (None, reason) if reason else (load_whisper(model), "")


def rate_row(texts: Sequence[str], heard: Sequence[Transcript | None]) -> dict[str, float]:
    """Return the word error rate over all `texts`, and how sure Whisper was; None where audio is not finite."""
    return {
        "WER": phrase_error_rate(texts, heard),
        "doubted": sum(not one or bool(doubts(one)) for one in heard),
        "phrases": len(heard),
        "mean log probability": float(np.mean([one.avg_logprob if one else np.nan for one in heard])),
    }


PAUSES = " ,.!?;:—…"


def word_times(case: Case) -> tuple[Word, ...]:
    """Return the words of an utterance in phonemes, with the times that the predicted durations give them; no pauses.

    Raises
    ------
    InputError
        If a phoneme of the utterance is not in the model's table, so that symbols and tokens do not correspond.
    """
    edges = np.concatenate([[0], np.cumsum(case.tensors["durations"].numpy())]) * SAMPLES_PER_FRAME / SAMPLE_RATE
    if len(case.phonemes) + 3 != len(edges):  # a pad token at each end
        counts = f"{len(case.phonemes)} phonemes and {len(edges) - 3} tokens"
        raise InputError(f"{counts}; some symbols are not in the table.")
    spoken = re.finditer(rf"[^{PAUSES}]+", case.phonemes)
    return tuple(Word(m[0], float(edges[m.start() + 1]), float(edges[m.end() + 1]), 1.0) for m in spoken)


def timing_rows(case: Case, transcript: Transcript | None) -> list[dict[str, Any]]:
    """Return a table: each word of the utterance, when it is spoken and when it was heard, and the difference.

    The list is empty where the listener heard another number of words, or none with times.
    """
    spoken, heard = word_times(case), transcript.words if transcript else ()
    if len(spoken) != len(heard):
        return []
    return [
        {"word": listened.text, "spoken (s)": word.start, "heard (s)": listened.start}
        | {"middle apart (s)": (listened.start + listened.end - word.start - word.end) / 2}
        for word, listened in zip(spoken, heard, strict=True)
    ]


@dataclass(frozen=True)
class KnownSentences:
    """What was heard.

    Attributes
    ----------
    choices : int
        Number of sentences to choose from.
    shares : mapping
        Version or control -> share of the phrases that were identified, 0 to 1.
    quality : mapping
        Version or control, but the package -> the judges' figures, a PerceivedQuality for each phrase.
    reason : str
        Why nothing was listened to; empty where it was.
    """

    choices: int
    shares: Mapping[str, float]
    quality: Mapping[str, tuple[PerceivedQuality, ...]]
    reason: str = ""

    @property
    def understood(self) -> bool:
        """Whether the package's own audio is identified at least in half: else no version can lose anything."""
        return bool(self.shares.get(PACKAGE, 0) >= 0.5)

    def rows(self) -> list[dict[str, Any]]:
        """Return a row for each version and each control; PESQ and STOI are means over the phrases."""
        rows = []
        for name, share in self.shares.items():
            row: dict[str, Any] = {"version": name, f"identified among {self.choices} (%)": 100 * share}
            if name in self.quality:
                row["PESQ against the package (MOS)"] = float(np.mean([one.pesq for one in self.quality[name]]))
                row["STOI against the package (0 to 1)"] = float(np.mean([one.stoi for one in self.quality[name]]))
            rows.append(row)
        return rows


def known_sentences(texts: Sequence[str], signals: Mapping[str, Sequence[np.ndarray]]) -> KnownSentences:
    """Identify every phrase of every version and control among the phrases and the 50 sentences of `PHRASES`.

    Parameters
    ----------
    texts : sequence of str
        What was said.
    signals : mapping
        Version or control, ``package`` among them -> a signal for each text, full scale 1, 24 kHz.
    """
    choices = list(dict.fromkeys([*texts, *PHRASES.read_text(encoding="utf-8").splitlines()]))
    missing = unknown_words(choices)
    if missing:
        return KnownSentences(len(choices), {}, {}, f"the recogniser has no pronunciation of {', '.join(missing)}")
    shares = {
        name: float(np.mean([identified(choices, y, SAMPLE_RATE) == text for y, text in zip(ys, texts, strict=True)]))
        for name, ys in signals.items()
    }
    quality = {
        name: tuple(perceived_quality(own, y, SAMPLE_RATE) for own, y in zip(signals[PACKAGE], ys, strict=True))
        for name, ys in signals.items()
        if name != PACKAGE
    }
    return KnownSentences(len(choices), shares, quality)


GAIN = 4.0  # of full scale, at the peak: what is written as 16-bit integers is cut at 1
LOST = 0.25  # s
MEASURES = ("RMS ratio", "largest band-energy ratio", "SNR", "log-spectral distance", "mel-cepstral distance")
MARGIN = 2.0  # times the worst healthy version; of an SNR, which is in dB already, the same factor in amplitude


def naive_padding(model: KModel, case: Case) -> np.ndarray:
    """Decode in a buffer of twice the length, zeros behind the utterance, and cut the audio to its length."""
    wide = widened(case.decoder_inputs(), 2 * case.frames)
    return _stage(model, wide)[: SAMPLES_PER_FRAME * case.frames]


def half_amplitude(model: KModel, case: Case) -> np.ndarray:
    """Return what an inverse STFT gives that forgets the mirrored half of the spectrum: half the amplitude."""
    return 0.5 * decode(model, case)


def other_noise(model: KModel, case: Case) -> np.ndarray:
    """Decode on another draw of the source's noise, which is no fault and changes every sample."""
    return decode(model, case, drawn=noise.draw(case.frames, case.seed + 1, "gaussian"))


def float16(model: KModel, case: Case) -> np.ndarray:
    """Decode with each operator's result rounded to float16, as a runtime computes that has nothing else.

    The phase of the source grows beyond what float16 resolves, and some results beyond 65504.
    """
    with _Float16():
        return _stage(model, case.decoder_inputs())


def clipped(model: KModel, case: Case) -> np.ndarray:
    """Write the audio four times too loud as 16-bit integers."""
    audio = decode(model, case)
    return np.clip(audio * (GAIN / np.abs(audio).max()), -1, 1).astype(np.float32)


def swapped_stages(model: KModel, case: Case) -> np.ndarray:
    """Decode with two blocks of the trunk in the wrong order; their shapes are the same, so nothing complains."""
    other = copy.deepcopy(model)
    blocks = other.decoder.decode
    blocks[0], blocks[1] = blocks[1], blocks[0]
    return decode(other, case)


def lost_chunk(model: KModel, case: Case) -> np.ndarray:
    """Return the audio without a quarter of a second in its middle, as a stream that drops a chunk plays it."""
    audio = decode(model, case)
    begin, count = len(audio) // 2, round(LOST * SAMPLE_RATE)
    return np.concatenate([audio[:begin], np.zeros(count, np.float32), audio[begin + count :]])[: len(audio)]


FAULTS: dict[str, Callable[[KModel, Case], np.ndarray]] = {
    "naive padding": naive_padding,
    "half amplitude": half_amplitude,
    "inverse of CustomSTFT": partial(decode, names=("custom_stft",)),  # whose window is not that of the package
    "signal for noise": partial(decode, names=("signal_noise",)),  # made of the signal, as in an older port
    "float16 throughout": float16,
    "clipped WAV": clipped,
    "swapped blocks": swapped_stages,
    "lost chunk": lost_chunk,
    "another draw of noise": other_noise,
}


def _stage(model: KModel, inputs: dict[str, torch.Tensor]) -> np.ndarray:
    with torch.no_grad(), patched(model, EXPORT_PATCHES):
        return stages.DecoderStage(model.decoder)(**inputs).reshape(-1).numpy()


class _Float16(TorchDispatchMode):
    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return _rounded(func(*args, **(kwargs or {})))


def _rounded(value: Any) -> Any:
    if isinstance(value, tuple | list):
        return type(value)(map(_rounded, value))
    return value.half().float() if getattr(value, "dtype", None) == torch.float32 else value


def noticed_by(healthy: Sequence[Mapping[str, float]], faulty: Sequence[Mapping[str, float]]) -> tuple[str, ...]:
    """Return the measures that notice a fault: in each utterance `MARGIN` times as far off as in any healthy one.

    Parameters
    ----------
    healthy : sequence of dict
        What `compare_audio` gives for versions that nothing is wrong with, of any of the utterances.
    faulty : sequence of dict
        The same for the version in question, one for each utterance.

    Returns
    -------
    tuple of str
        Names out of `MEASURES`; the finite fraction alone where an audio is not finite, for then nothing else is
        defined.
    """
    if any(one[FINITE] < 100 for one in faulty):
        return (FINITE,)
    return tuple(name for name in MEASURES if all(_beyond(name, healthy, one) for one in faulty))


def _beyond(name: str, healthy: Sequence[Mapping[str, float]], one: Mapping[str, float]) -> bool:
    if name == "SNR":
        return one[name] < np.min([sound[name] for sound in healthy]) - 20 * math.log10(MARGIN)
    return abs(one[name]) > MARGIN * np.max([abs(sound[name]) for sound in healthy])
