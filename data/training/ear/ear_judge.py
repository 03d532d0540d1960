"""How well an ear hears: word error rates on speech that it was not taught, and on what is no speech.

Everything goes through `kokoro_nb.listening.transcript.transcribe`, as in the notebooks. A transcript that is doubted
counts as if nothing had been heard: in speech that makes every word of it an error, in a control it is what is wanted.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from kokoro_nb.listening.transcript import is_speech, phrase_error_rate, phrases, transcribe
from kokoro_nb.models.architecture import SAMPLE_RATE
from training.corpus import VOICES
from training.ear.ear_corpus import HELD_OUT_VOICES
from training.espeak import speak

SENTENCES = 50


@dataclass(frozen=True)
class EarScore:
    """What an ear made of one kind of signal.

    Attributes
    ----------
    signal : str
        What was played.
    clips : int
        Signals of that kind.
    word_error_rate : float
        Errors over the words of all reference texts.
    heard : float
        Share of the signals whose transcript is believed.
    """

    signal: str
    clips: int
    word_error_rate: float
    heard: float


def judge(model: Any, signal: str, texts: tuple[str, ...], clips: Iterator[np.ndarray]) -> EarScore:
    """Let `model` transcribe one clip for each text.

    Parameters
    ----------
    model : whisper.model.Whisper
    signal : str
        What the clips are.
    texts : tuple of str
    clips : iterator of numpy.ndarray, shape (samples,), float32
        At 24 kHz, in the order of `texts`.
    """
    transcripts = [transcribe(model, audio, SAMPLE_RATE) for audio in clips]
    believed = sum(is_speech(transcript) for transcript in transcripts)
    return EarScore(signal, len(texts), phrase_error_rate(texts, transcripts), believed / len(texts))


def espeak_clips(texts: tuple[str, ...], voice: str) -> Iterator[np.ndarray]:
    """Yield each text in a voice of espeak, at the rate and pitch that the small Kokoro was taught."""
    return (speak(text, voice, rate=150, pitch=50).audio for text in texts)


def kokoro_clips(texts: tuple[str, ...], voice: str, weights: str = "mini") -> Iterator[np.ndarray]:
    """Yield each text as the unpatched Kokoro speaks it."""
    from kokoro_nb.models.case import capture
    from kokoro_nb.models.kokoro import load_model

    kokoro = load_model(weights, 0)
    return (capture(kokoro, text, voice, g2p="espeak").tensors["audio"].numpy() for text in texts)


def noise_clips(count: int, seed: int = 0) -> Iterator[np.ndarray]:
    """Yield `count` signals of 2 s that hold no speech: white noise, brown noise and a hum, from loud to faint."""
    source, time = np.random.default_rng(seed), np.arange(2 * SAMPLE_RATE) / SAMPLE_RATE
    for at in range(count):
        white = source.standard_normal(time.size)
        brown = np.cumsum(white - white.mean())
        hum = np.sign(np.sin(2 * np.pi * source.uniform(60, 250) * time))
        made = (white, brown, hum)[at % 3]
        yield (made / np.abs(made).max() * 10 ** -source.uniform(0, 2.5)).astype(np.float32)


def verdicts(model: Any, count: int = SENTENCES) -> Iterator[EarScore]:
    """Judge `model` on `count` phrases of the list: espeak's held-out voices, the small Kokoro's, three controls."""
    texts = phrases(count)
    for voice in HELD_OUT_VOICES:
        yield judge(model, f"espeak {voice}", texts, espeak_clips(texts, voice))
    for voice in VOICES:
        yield judge(model, f"kokoro-mini {voice}", texts, kokoro_clips(texts, voice))
    backwards = (audio[::-1].copy() for audio in espeak_clips(texts, HELD_OUT_VOICES[0]))
    yield judge(model, "control: speech backwards", texts, backwards)
    others = texts[1:] + texts[:1]
    yield judge(model, "control: another sentence", texts, espeak_clips(others, HELD_OUT_VOICES[0]))
    yield judge(model, "control: noise", texts, noise_clips(count))
