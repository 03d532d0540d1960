"""Transcripts by openai-whisper: when they may be believed, a list of phrases, and the word error rate over them."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from kokoro_nb.errors import InputError
from kokoro_nb.listening.waveform import Signal, as_signal, percent_finite

PHRASES = Path(__file__).parents[2] / "data" / "phrases.txt"
NOTES = PHRASES.with_name("notes.txt")
SAMPLE_RATE = 16_000
NO_SPEECH_PROB = 0.6
AVG_LOGPROB = -1.0
COMPRESSION_RATIO = 2.4


@dataclass(frozen=True)
class Word:
    """One word with its start and end in seconds, and the mean probability of its tokens."""

    text: str
    start: float
    end: float
    probability: float


@dataclass(frozen=True)
class Transcript:
    """What was heard in one signal.

    Where whisper gives several segments, each figure is that of the worst of those with text in them; where it gives
    none, the text is empty and the figures are NaN.

    Attributes
    ----------
    text : str
        The text.
    avg_logprob : float
        Mean natural-log probability of the tokens.
    no_speech_prob : float
        Probability, 0 to 1, that there is no speech.
    compression_ratio : float
        Length of the text over its length after zlib: repetition makes it large.
    words : tuple of Word
        Empty unless requested.
    """

    text: str
    avg_logprob: float
    no_speech_prob: float
    compression_ratio: float
    words: tuple[Word, ...] = ()


def doubts(transcript: Transcript) -> tuple[str, ...]:
    """Return every reason to take `transcript` for a hallucination, in words; none for speech.

    The thresholds are the defaults of ``whisper.transcribe``. Whisper itself drops a window only if it is both likely
    to be without speech and improbable; here each is enough, for a transcript made up out of noise must never score.

    >>> doubts(Transcript("Thank you.", -0.4, 0.8, 0.6))
    ('the probability of no speech is 0.8, and must be at most 0.6',)
    """
    if not transcript.text.strip():
        return ("no words were heard",)
    silence, confidence, ratio = transcript.no_speech_prob, transcript.avg_logprob, transcript.compression_ratio
    # a NaN passes none of these, and so is doubted
    repeats = f"most {COMPRESSION_RATIO}: it repeats itself"
    checks = (
        (silence <= NO_SPEECH_PROB, f"probability of no speech is {silence:.3g}", f"most {NO_SPEECH_PROB}"),
        (confidence >= AVG_LOGPROB, f"mean log probability is {confidence:.3g}", f"least {AVG_LOGPROB}"),
        (ratio <= COMPRESSION_RATIO, f"compression ratio is {ratio:.3g}", repeats),
    )
    return tuple(f"the {found}, and must be at {limit}" for passed, found, limit in checks if not passed)


def is_speech(transcript: Transcript) -> bool:
    """Return whether `transcript` may be believed: see `doubts`."""
    return not doubts(transcript)


def transcribe(model: Any, y: Signal, sr: int, words: bool = False) -> Transcript:
    """Return what `model` hears in `y`, in English, by greedy decoding: twice the same.

    Parameters
    ----------
    model : whisper.model.Whisper
        From `kokoro_nb.listening.recogniser.load_whisper`.
    y : numpy.ndarray, shape (n,), float
        Samples, full scale 1; resampled to 16 kHz. Digital silence is not shown to the model: its transcript is empty.
    sr : int
        Sample rate in Hz.
    words : bool
        Whether to time each word, by whisper's dynamic time warping over the cross-attention.

    Raises
    ------
    InputError
        If `y` is no signal or not finite.
    """
    import librosa
    import torch
    import whisper

    samples = as_signal(y)
    if not np.isfinite(samples).all():
        raise InputError(f"The signal is {percent_finite(samples)} and cannot be transcribed; look at its NaN first.")
    if not samples.any():
        return Transcript("", math.nan, math.nan, math.nan)
    audio = librosa.resample(samples, orig_sr=sr, target_sr=SAMPLE_RATE).astype(np.float32)
    threads = torch.get_num_threads()
    try:
        # one temperature: the fallback to higher ones draws at random
        heard = whisper.transcribe(
            model,
            audio,
            temperature=0.0,
            condition_on_previous_text=False,
            no_speech_threshold=NO_SPEECH_PROB,
            logprob_threshold=AVG_LOGPROB,
            compression_ratio_threshold=COMPRESSION_RATIO,
            word_timestamps=words,
            language="en",
            fp16=False,
        )
    finally:  # numba, by which whisper times words, sets those of OpenMP, and so PyTorch's, for the whole process
        torch.set_num_threads(threads)
    segments = [segment for segment in heard["segments"] if segment["text"].strip()]
    if not segments:
        return Transcript("", math.nan, math.nan, math.nan)
    worst = {"avg_logprob": np.min, "no_speech_prob": np.max, "compression_ratio": np.max}
    figures = {name: float(of([segment[name] for segment in segments])) for name, of in worst.items()}
    said = tuple(
        Word(word["word"].strip(), float(word["start"]), float(word["end"]), float(word["probability"]))
        for segment in segments
        for word in segment.get("words", ())
    )
    return Transcript(heard["text"].strip(), **figures, words=said)


def normalise(text: str) -> str:
    """Return `text` as whisper's English normaliser writes it: lower case, no punctuation, numbers in digits."""
    from whisper.normalizers import EnglishTextNormalizer

    return EnglishTextNormalizer()(text).strip()


def phrases(count: int) -> tuple[str, ...]:
    """Return the first `count` phrases of the list, which neither the small voice nor the small ear was taught.

    Raises
    ------
    InputError
        If there are not so many.
    """
    known = tuple(PHRASES.read_text(encoding="utf-8").splitlines())
    most = len(known)
    if not 1 <= count <= most:
        raise InputError(f"{count} phrases are requested and {PHRASES.name} has {most}; request 1 to {most}.")
    return known[:count]


def spoken_texts(text: str, count: int) -> tuple[str, ...]:
    """Return what is to be spoken.

    Parameters
    ----------
    text : str
        A text of one's own; empty for the first `count` of `phrases`; ``notes`` for the sentences with which earlier
        ports were tried, punctuation, numbers and long sentences, a minute of speech in all.
    count : int
    """
    if text == "notes":
        return tuple(NOTES.read_text(encoding="utf-8").splitlines())
    return (text,) if text else phrases(count)


def believed(transcript: Transcript | None) -> str:
    """Return what counts as heard, normalised: nothing where there is no transcript, or a doubted one."""
    return normalise(transcript.text) if transcript is not None and is_speech(transcript) else ""


def phrase_error_rate(texts: Sequence[str], heard: Sequence[Transcript | None]) -> float:
    """Return the word error rate over all `texts`: errors over the words of all of them.

    Parameters
    ----------
    texts : sequence of str
        What was spoken.
    heard : sequence of Transcript or None
        One for each text. A doubted one, or None, counts as if nothing had been heard: every word is an error.

    >>> phrase_error_rate(["two cats", "one dog"], [None, Transcript("one dog", -0.1, 0.0, 0.9)])
    0.5
    """
    import jiwer

    return float(jiwer.wer([normalise(text) for text in texts], [believed(transcript) for transcript in heard]))
