"""Aligned speech for training the small voice: ids, durations, F0, energy and audio of every sentence.

The alignment is espeak-ng's own (`training.alignment`); F0 and energy are measured on the audio.
"""

from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import numpy as np

from kokoro_nb.errors import InputError
from kokoro_nb.models.architecture import SAMPLE_RATE, SAMPLES_PER_FRAME, full_config
from kokoro_nb.storage import atomic, cache_dir, digest
from training.alignment import MERGES, AlignmentError, align, frame_durations
from training.espeak import speak
from training.sentences import punctuated, sentences, word_lists
from training.shards import build_shards, candidates, first_aligned

VOICES: dict[str, dict] = {
    "em_espeak": {"voice": "en-us", "rate": 150, "pitch": 50},
    "ef_espeak": {"voice": "en-us+f3", "rate": 150, "pitch": 50},
}
LEAD = 2 * SAMPLES_PER_FRAME  # silence for the pad token at the beginning
TAIL = 3 * SAMPLES_PER_FRAME  # and at the end, at least
CLOSED = 0.8  # share of sentences over the closed vocabulary; the rest are word lists
SHARD = 100  # sentences in one file
HOP = SAMPLES_PER_FRAME // 2  # two values of F0 and energy in a frame
F0_WINDOW = 1024  # samples
F0_RANGE = (60.0, 420.0)  # Hz
QUIET = 1e-3  # RMS below which energy is not followed any further (-60 dB re full scale)
ENERGY_OFFSET = 4.0  # N = ln(RMS) + 4 lies between -2.9 and about 3


@dataclass(frozen=True)
class AlignedSentence:
    """One sentence, aligned.

    Attributes
    ----------
    text : str
        As given to espeak.
    voice : int
        Index into `VOICES`.
    ids : numpy.ndarray, shape (symbols + 2,), int64
        With the pad token 0 at either end.
    durations : numpy.ndarray, shape (symbols + 2,), int64, frames
        At 40 frames per second, each at least 1.
    f0 : numpy.ndarray, shape (2 * frames,), float32, Hz
        0 where unvoiced; value k belongs to the samples from 300 k to 300 (k + 1).
    energy : numpy.ndarray, shape (2 * frames,), float32
        ``ln(RMS) + 4``, the RMS re full scale and no lower than -60 dB.
    audio : numpy.ndarray, shape (600 * frames,), float32
        At 24 kHz.
    """

    text: str
    voice: int
    ids: np.ndarray
    durations: np.ndarray
    f0: np.ndarray
    energy: np.ndarray
    audio: np.ndarray


def pitch_and_energy(audio: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Measure F0 (YIN, 0 where unvoiced) and energy, 80 values per second.

    A value is voiced where it is neither quiet nor crosses zero as often as noise does, and where the wave one period
    on is like itself (normalised correlation above 0.6).

    Parameters
    ----------
    audio : numpy.ndarray, shape (600 * frames,), float32

    Returns
    -------
    f0 : numpy.ndarray, shape (2 * frames,), float32, Hz
    energy : numpy.ndarray, shape (2 * frames,), float32
    """
    import librosa

    count = len(audio) // HOP
    margin = (F0_WINDOW - HOP) // 2  # the window is centred on the samples that the value belongs to
    padded = np.pad(audio, margin)
    windows = np.lib.stride_tricks.sliding_window_view(padded, F0_WINDOW)[::HOP]
    f0 = librosa.yin(
        padded, fmin=F0_RANGE[0], fmax=F0_RANGE[1], sr=SAMPLE_RATE, frame_length=F0_WINDOW, hop_length=HOP, center=False
    )
    if not len(windows) == len(f0) == count:
        raise InputError(f"{len(windows)} windows, {len(f0)} F0 values, {count} expected: the audio is cut askew.")
    rms = np.sqrt(np.mean(windows[:, margin - HOP // 2 : -margin + HOP // 2] ** 2, axis=1))
    crossings = np.mean(np.diff(np.signbit(windows), axis=1), axis=1)
    lags = np.rint(SAMPLE_RATE / f0).astype(int)
    likeness = np.array([_correlation(window, lag) for window, lag in zip(windows, lags, strict=True)])
    voiced = (rms > 0.01) & (crossings < 0.25) & (likeness > 0.6)
    energy = np.log(np.maximum(rms, QUIET)) + ENERGY_OFFSET
    return np.where(voiced, f0, 0.0).astype(np.float32), energy.astype(np.float32)


def _correlation(window: np.ndarray, lag: int) -> float:
    early, late = window[:-lag], window[lag:]
    power = float(np.dot(early, early) * np.dot(late, late))
    return float(np.dot(early, late)) / np.sqrt(power) if power > 0 else 0.0


def utterance(text: str, voice: str, vocab: dict[str, int]) -> AlignedSentence:
    """Speak `text`, align it and measure it.

    Parameters
    ----------
    text : str
    voice : str
        A name of `VOICES`.
    vocab : dict
        Symbol -> id.

    Raises
    ------
    AlignmentError
        If the transcription and what espeak says differ, or a symbol is not in the table.
    """
    from kokoro_nb.models.phonemes import phonemise

    symbols, _ = phonemise(text, "espeak")
    unknown = {symbol for symbol in symbols if symbol not in vocab}
    if unknown:
        raise AlignmentError(f"The table has no {', '.join(sorted(unknown))}.")
    speech = speak(text, **VOICES[voice])
    starts = align(symbols, speech)
    frames = -(-(LEAD + len(speech.audio) + TAIL) // SAMPLES_PER_FRAME)
    audio = np.zeros(frames * SAMPLES_PER_FRAME, dtype=np.float32)
    audio[LEAD : LEAD + len(speech.audio)] = speech.audio
    durations = frame_durations(np.concatenate([[0.0], starts + LEAD, [len(audio)]]), frames)
    f0, energy = pitch_and_energy(audio)
    ids = np.array([0, *(vocab[symbol] for symbol in symbols), 0], dtype=np.int64)
    return AlignedSentence(text, list(VOICES).index(voice), ids, durations, f0, energy, audio)


def corpus_folder(count: int, seed: int) -> Path:
    """Return the cache folder of a corpus; its name changes with everything that the corpus depends on."""
    settings = repr((VOICES, LEAD, TAIL, CLOSED, SHARD, MERGES, F0_WINDOW, F0_RANGE, QUIET, ENERGY_OFFSET, seed))
    recipe = "".join(punctuated(s, seed) for s in islice(sentences(seed), 50)) + "".join(islice(word_lists(seed), 50))
    return cache_dir() / "training" / "corpus" / f"{count}-{digest(settings, recipe)[:12]}"


def build_corpus(count: int, seed: int) -> list[AlignedSentence]:
    """Make `count` utterances, or read those that were made before; about 100 times faster than they are spoken.

    Parameters
    ----------
    count : int
        A multiple of 100, the sentences in one file.
    seed : int
        Seed of the sentences; voices take turns.
    """
    vocab, names = full_config()["vocab"], list(VOICES)

    def say(text: str, at: int) -> AlignedSentence:
        return utterance(text, names[at % len(names)], vocab)

    def make(index: int) -> list[AlignedSentence]:
        return first_aligned(shard_texts(index, seed), say, SHARD)

    return build_shards(corpus_folder(count, seed), count, SHARD, make, write_shard, read_shard)


def shard_texts(index: int, seed: int) -> list[str]:
    """Return the texts for file `index`, of the closed vocabulary and of word lists in turn."""
    closed, lists = (candidates(texts, index, SHARD) for texts in (sentences(seed), word_lists(seed)))
    every = round(1 / (1 - CLOSED))
    return [
        punctuated(lists_text if at % every == every - 1 else closed_text, seed)
        for at, (closed_text, lists_text) in enumerate(zip(closed, lists, strict=True))
    ]


def write_shard(path: Path, utterances: list[AlignedSentence]) -> None:
    """Write utterances compactly: audio as 16-bit integers, F0 and energy as 16-bit floats, all end to end."""
    with atomic(path) as draft, draft.open("wb") as file:
        np.savez_compressed(
            file,
            texts=np.array([u.text for u in utterances]),
            voices=np.array([u.voice for u in utterances], dtype=np.uint8),
            symbols=np.array([len(u.ids) for u in utterances]),
            ids=np.concatenate([u.ids for u in utterances]).astype(np.uint8),
            durations=np.concatenate([u.durations for u in utterances]).astype(np.uint16),
            f0=np.concatenate([u.f0 for u in utterances]).astype(np.float16),
            energy=np.concatenate([u.energy for u in utterances]).astype(np.float16),
            audio=np.rint(np.concatenate([u.audio for u in utterances]) * 32767).clip(-32768, 32767).astype(np.int16),
        )


def read_shard(path: Path) -> list[AlignedSentence]:
    """Read what `write_shard` wrote."""
    with np.load(path) as stored:
        data = {name: stored[name] for name in stored.files}
    ends = np.cumsum(data["symbols"])
    durations = np.split(data["durations"].astype(np.int64), ends[:-1])
    frames = np.cumsum([d.sum() for d in durations])
    curves = [np.split(data[name].astype(np.float32), 2 * frames[:-1]) for name in ("f0", "energy")]
    audio = np.split(data["audio"].astype(np.float32) / 32767, SAMPLES_PER_FRAME * frames[:-1])
    ids = np.split(data["ids"].astype(np.int64), ends[:-1])
    rows = zip(data["texts"], data["voices"], ids, durations, *curves, audio, strict=True)
    return [AlignedSentence(str(text), int(voice), *rest) for text, voice, *rest in rows]
