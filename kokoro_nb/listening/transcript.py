"""Transcripts by openai-whisper: when they may be believed, and their word error rate."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from kokoro_nb.errors import InputError
from kokoro_nb.listening.waveform import Signal, as_signal, percent_finite

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
    silence, confidence, repetition = transcript.no_speech_prob, transcript.avg_logprob, transcript.compression_ratio
    # a NaN passes none of these, and so is doubted
    checks = (
        (
            silence <= NO_SPEECH_PROB,
            f"the probability of no speech is {silence:.3g}, and must be at most {NO_SPEECH_PROB}",
        ),
        (
            confidence >= AVG_LOGPROB,
            f"the mean log probability is {confidence:.3g}, and must be at least {AVG_LOGPROB}",
        ),
        (
            repetition <= COMPRESSION_RATIO,
            f"the compression ratio is {repetition:.3g}, and must be at most {COMPRESSION_RATIO}: it repeats itself",
        ),
    )
    return tuple(reason for passed, reason in checks if not passed)


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
    return Transcript(
        text=heard["text"].strip(),
        avg_logprob=float(np.min([segment["avg_logprob"] for segment in segments])),
        no_speech_prob=float(np.max([segment["no_speech_prob"] for segment in segments])),
        compression_ratio=float(np.max([segment["compression_ratio"] for segment in segments])),
        words=tuple(
            Word(word["word"].strip(), float(word["start"]), float(word["end"]), float(word["probability"]))
            for segment in segments
            for word in segment.get("words", ())
        ),
    )


def word_error_rate(reference: str, heard: str | Transcript) -> float:
    """Return the word error rate of what was heard, after whisper's English text normaliser.

    Without the normaliser "two" and "2" would count as an error.

    Parameters
    ----------
    reference : str
        The text that was spoken.
    heard : str or Transcript
        A transcript that `is_speech` rejects does not score: NaN.

    Returns
    -------
    float
        Substitutions, deletions and insertions over the words of the reference; it may exceed 1.

    Raises
    ------
    InputError
        If no word is left of the reference.

    >>> word_error_rate("Mister Smith has two cats.", "Mr. Smith has 2 hats")
    0.2
    """
    import jiwer

    spoken = normalise(reference)
    if not any(character.isalnum() for character in spoken):
        raise InputError(f"There is no word in the reference {reference!r}; give the text that was spoken.")
    if isinstance(heard, Transcript):
        if not is_speech(heard):
            return math.nan
        heard = heard.text
    return float(jiwer.wer(spoken, normalise(heard)))


def normalise(text: str) -> str:
    """Return `text` as whisper's English normaliser writes it: lower case, no punctuation, numbers in digits."""
    from whisper.normalizers import EnglishTextNormalizer

    return EnglishTextNormalizer()(text).strip()
