"""What the small ear hears in one step: clips, warped and spoilt in the mel domain, and what it should say of them.

Everything is done on whisper's log-mel spectrogram, where a gain is a shift, a filter a slope over the bands, and noise
a sum of powers: a hundred times cheaper than on samples. Nothing here comes from the voice that the ear will judge.
"""

from dataclasses import dataclass
from functools import cache

import numpy as np
import torch
from torch import Tensor

from kokoro_nb.models.architecture import full_config
from training.ear.ear_corpus import MEL_SECONDS, Clip
from training.ear.tokens import trained_tokens
from training.sentences import VOCABULARY

MELS, FULL = 80, 3000  # bands and mel frames of whisper's window
RANGE = 2.0  # whisper cuts its spectrogram so far below its highest value; one unit is 40 dB
NEIGHBOURS = 400  # a batch is drawn from so many clips of nearly the same length
SILENT = 0.06  # share of clips without speech
UNTIMED = 0.2  # share without timestamps, as whisper's word timings ask for
IGNORED = -100  # a target that does not count
TIME_WEIGHT = 0.2  # a timestamp counts so much less than a word
BANDS = np.linspace(-1, 1, MELS, dtype=np.float32)[:, None]
NEPERS = np.float32(4 * np.log(10))  # of power in one unit of whisper's spectrogram
LEAD, TAIL = 30, 40  # mel frames of silence before and after, at most


@dataclass(frozen=True)
class EarBatch:
    """Clips in one window length.

    Attributes
    ----------
    mel : torch.Tensor, shape (batch, 80, 2 * positions), float32
        As whisper's encoder is given it.
    given, wanted : torch.Tensor, shape (batch, tokens), int64
        The decoder's input and its targets, indices into `trained_tokens().ids`; `IGNORED` on padding.
    weights : torch.Tensor, shape (batch, tokens), float32
    phonemes, words : torch.Tensor, shape (batch, positions), int64
        What is heard at each position; 0 is silence, `IGNORED` beyond the signal.
    places : torch.Tensor, shape (batch, tokens, 2), int64
        First position of the word that a token belongs to and the one after its last; equal where there is none.
    """

    mel: Tensor
    given: Tensor
    wanted: Tensor
    weights: Tensor
    phonemes: Tensor
    words: Tensor
    places: Tensor

    def to(self, device: str) -> "EarBatch":
        """Return the batch on `device`."""
        return EarBatch(*(value.to(device) for value in vars(self).values()))


def draw_ear_batch(clips: list[Clip], size: int, seed: int, step: int, full: bool = False) -> EarBatch:
    """Draw the batch of one step; the same for the same seed and step.

    Parameters
    ----------
    clips : list of Clip
        In order of length.
    size : int
        Clips.
    seed, step : int
    full : bool
        Whisper's whole window of 30 s in place of the shortest that holds all clips.
    """
    source = np.random.default_rng([seed, step])
    near = min(NEIGHBOURS, len(clips))
    first = source.integers(len(clips) - near + 1)
    heard = [_hear(clips[first + at], source) for at in source.choice(near, size, replace=size > near)]
    return collate(heard, source, FULL if full else None)


@dataclass
class HeardClip:
    """One clip as it is heard: its spectrogram, and (index, begin, end) in mel frames of sounds and of words."""

    mel: np.ndarray
    sounds: list[tuple[int, float, float]]
    words: list[tuple[str, float, float]]


def plain(clip: Clip, lead: int = 10) -> HeardClip:
    """Return `clip` as it is, after a little silence."""
    mel = clip.mel.astype(np.float32)
    mel = np.concatenate([np.full((MELS, lead), mel.max() - RANGE, np.float32), mel], axis=1)
    ids = full_config()["vocab"]
    sounds = [(ids.get(symbol, 0), begin + lead, end + lead) for symbol, begin, end in clip.sounds() if symbol != " "]
    return HeardClip(mel, sounds, [(word, begin + lead, end + lead) for word, begin, end in clip.words()])


def _hear(clip: Clip, source: np.random.Generator) -> HeardClip:
    """Return `clip` as it might come through another voice, another room or another model."""
    heard = plain(clip, int(source.integers(LEAD)))
    tail = np.full((MELS, source.integers(TAIL)), heard.mel.max() - RANGE, np.float32)
    mel, factor = np.concatenate([heard.mel, tail], axis=1), float(np.exp(source.uniform(-0.18, 0.18)))
    mel = warp(mel, factor, float(np.exp(source.uniform(-0.1, 0.1))), float(source.uniform(-1.0, 1.0)))
    if source.random() < SILENT:
        return HeardClip(_worsen(_without_speech(mel, source), source), [], [])
    sounds = [(index, begin * factor, end * factor) for index, begin, end in heard.sounds]
    return HeardClip(_worsen(mel, source), sounds, [(word, b * factor, e * factor) for word, b, e in heard.words])


def warp(mel: np.ndarray, time: float, band: float, shift: float) -> np.ndarray:
    """Stretch a spectrogram by `time` and its bands by `band`, and move it up by `shift` bands; linear interpolation.

    Parameters
    ----------
    mel : numpy.ndarray, shape (bands, frames), float32
    """
    for axis, count, factor, moved in ((1, round(mel.shape[1] * time), time, 0.0), (0, mel.shape[0], band, shift)):
        at = np.clip((np.arange(count) - moved) / factor, 0, mel.shape[axis] - 1)
        low = np.minimum(at.astype(int), mel.shape[axis] - 2)
        part = (at - low).astype(np.float32)
        part = part[None, :] if axis else part[:, None]
        mel = mel.take(low, axis) * (1 - part) + mel.take(low + 1, axis) * part
    return mel


def _without_speech(mel: np.ndarray, source: np.random.Generator) -> np.ndarray:
    """Return noise, a hum, frames in disorder or near silence, as long as `mel`."""
    kind, frames = source.integers(4), mel.shape[1]
    if kind == 0:
        return mel[:, source.permutation(frames)]
    if kind == 1:
        return np.repeat(mel[:, source.integers(frames), None], frames, axis=1)
    level = -1.5 if kind == 2 else source.uniform(-1.0, 0.8)
    return np.full((MELS, frames), level, np.float32) + (_fluctuation(frames, source) if kind == 3 else 0)


@cache
def _steady_noise() -> np.ndarray:
    """Return how the spectrogram of steady noise fluctuates, shape (80, 20000): high bands, being wide, do so less."""
    freedom = np.linspace(1.5, 12, MELS)[:, None]
    power = np.random.default_rng(0).standard_gamma(freedom, (MELS, 20_000)) / freedom
    return (np.log10(np.maximum(power, 1e-4)) / 4).astype(np.float32)


def _fluctuation(frames: int, source: np.random.Generator) -> np.ndarray:
    """Return a piece of noise with a slope over the bands."""
    begin, slope = source.integers(20_000 - frames), np.float32(source.uniform(-0.8, 0.4))
    return _steady_noise()[:, begin : begin + frames] + slope * BANDS / 2


def _worsen(mel: np.ndarray, source: np.random.Generator) -> np.ndarray:
    """Smooth, filter, add noise, change the level and cut out pieces, each at random."""
    frames = mel.shape[1]
    if source.random() < 0.4:  # what a blurred model makes of formants and of onsets
        axis, share = int(source.integers(2)), source.uniform(0.2, 1.0)
        mel = mel + np.float32(share) * ((np.roll(mel, 1, axis) + mel + np.roll(mel, -1, axis)) / 3 - mel)
    wave = np.cos(2 * np.pi * (BANDS + np.float32(source.random())))
    top = mel.max()
    mel = mel + np.float32(source.normal(0, 0.15)) * BANDS + np.float32(source.normal(0, 0.1)) * wave
    mel += np.float32(source.uniform(0, 0.06)) * source.standard_normal(mel.shape, np.float32)
    if source.random() < 0.1:  # a telephone's or a codec's band
        cut = int(source.integers(55, MELS))
        mel[cut:] = top - RANGE
        mel[: int(source.integers(1, 10))] -= source.uniform(0, 1)
    if source.random() < 0.5:
        noise = top - np.float32(source.uniform(0.7, 2.0)) + _fluctuation(frames, source)
        mel = np.logaddexp(NEPERS * mel, NEPERS * noise) / NEPERS
    mel += np.float32(source.uniform(-0.6, 0.3))  # 24 dB down to 12 dB up
    mel = np.maximum(mel, mel.max() - RANGE)
    for _ in range(source.integers(3)):
        begin, low = source.integers(max(frames - 6, 1)), source.integers(MELS - 8)
        if source.random() < 0.5:
            mel[:, begin : begin + source.integers(1, 6)] = mel.min()
        else:
            mel[low : low + source.integers(1, 8)] = mel.mean()
    return mel.astype(np.float32)


def collate(heard: list[HeardClip], source: np.random.Generator, frames: int | None = None) -> EarBatch:
    """Put clips into one window, `frames` long or as short as holds them all; `source` draws how each is padded."""
    tokens, words = trained_tokens(), {word: at + 1 for at, word in enumerate(VOCABULARY)}
    frames = frames or -(-max(one.mel.shape[1] for one in heard) // 20) * 20
    rows = [_row(one, source) for one in heard]
    length = max(len(row[0]) for row in rows)
    mel = np.zeros((len(heard), MELS, frames), np.float32)
    labels = np.full((2, len(heard), frames // 2), IGNORED)
    for at, one in enumerate(heard):
        # whisper.transcribe fills its window with 0, whisper.decode of padded audio with the lowest value
        mel[at] = 0.0 if source.random() < 0.7 else one.mel.max() - RANGE
        mel[at, :, : one.mel.shape[1]] = one.mel
        labels[:, at, : one.mel.shape[1] // 2] = 0
        spans = (one.sounds, [(words[word], begin, end) for word, begin, end in one.words])
        for label, marks in zip(labels, spans, strict=True):
            for index, begin, end in marks:
                label[at, round(begin / 2) : round(end / 2)] = index
    given = np.array([row[0] + [tokens.end] * (length - len(row[0])) for row in rows])
    wanted = np.array([row[1] + [IGNORED] * (length - len(row[1])) for row in rows])
    places = np.array([row[2] + [(0, 0)] * (length - len(row[2])) for row in rows])
    weights = np.where(np.isin(wanted, tokens.times), np.float32(TIME_WEIGHT), np.float32(1))
    arrays = (mel, given, wanted, weights, *labels, places)
    return EarBatch(*(torch.from_numpy(array) for array in arrays))


def _row(one: HeardClip, source: np.random.Generator) -> tuple[list[int], list[int], list[tuple[int, int]]]:
    """Return the decoder's input, its targets and the places of their words."""
    tokens, text, places = trained_tokens(), [], []
    for word, begin, end in one.words:
        for token in tokens.words[word]:
            text.append(token)
            places.append((round(begin / 2), max(round(end / 2), round(begin / 2) + 1)))
    timed = source.random() >= UNTIMED
    if not text:
        return [tokens.start, tokens.times[0]], [tokens.silent, tokens.end], [(0, 0)] * 2
    if not timed:
        return [tokens.start, tokens.untimed, *text], [IGNORED, *text, tokens.end], [(0, 0), *places, (0, 0)]
    end = tokens.time(one.words[-1][2] * MEL_SECONDS)
    given, wanted = [tokens.start, tokens.times[0], *text, end], [tokens.times[0], *text, end, tokens.end]
    return given, wanted, [(0, 0), *places, (0, 0), (0, 0)]
