"""Aligned speech for training the small ear: many voices of espeak-ng over the closed vocabulary.

The voices that the small Kokoro speaks with are among those held out: an ear that has learnt a voice by heart is no
judge of it.
"""

import random
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import numpy as np

from kokoro_nb.models.architecture import SAMPLE_RATE
from kokoro_nb.storage import atomic, cache_dir, digest
from training.alignment import STRESS, AlignmentError, align
from training.espeak import speak
from training.sentences import VOCABULARY, is_held_out, sentences
from training.shards import build_shards, candidates, first_aligned

_VARIANTS = (
    "f1 f2 f4 m1 m2 m3 m4 m6 m7 m8 klatt klatt2 klatt4 klatt5 klatt6 Alex Alicia Andrea Annie Denis Diogo Gene Gene2 "
    "Henrique Hugo Jacky Lee Marco Mike Nguyen Reed RicishayMax RicishayMax2 UniRobot adam anika antonio aunty belinda "
    "benjamin boris caleb david ed edward gustave ian iven iven2 iven3 john kaukovalta marcelo max michel miguel "
    "norbert pablo paul pedro quincy rob robert robosoft robosoft2 robosoft4 robosoft5 sandro shelby steph steph3 "
    "travis victor zac"
)
TRAINED = tuple(f"en-us+{variant}" for variant in _VARIANTS.split())
HELD_OUT_VOICES = (  # the first two are those of `training.corpus.VOICES`
    "en-us", "en-us+f3", "en-us+f5", "en-us+m5", "en-us+klatt3", "en-us+Andy", "en-us+Mario", "en-us+linda",
)  # fmt: skip
RATES = (110, 210)  # words per minute
PITCHES = (15, 85)  # espeak's scale of 0 to 100
SCRAMBLED = 0.3  # share of word lists in random order, so that the ear cannot lean on grammar
SHARD = 100  # clips in one file
EAR_RATE = 16_000  # Hz
MEL_SECONDS = 0.01  # whisper's hop


@dataclass(frozen=True)
class Clip:
    """One sentence as whisper's front end sees it, with the time of everything in it.

    Attributes
    ----------
    text : str
        Lower case, without punctuation.
    voice : str
        Of espeak.
    mel : numpy.ndarray, shape (80, frames), float16
        Whisper's own log-mel spectrogram, 100 frames per second, normalised as whisper does.
    symbols : str
        Phonemes in Kokoro's symbols.
    starts : numpy.ndarray, shape (symbols + 1,), float32, mel frames
        Where each symbol begins and the last one ends.
    """

    text: str
    voice: str
    mel: np.ndarray
    symbols: str
    starts: np.ndarray

    def sounds(self) -> list[tuple[str, float, float]]:
        """Return (phoneme, begin, end) in mel frames; stress and length marks go to the vowel, silence is ``" "``."""
        found: list[tuple[str, float, float]] = []
        begin = None
        for symbol, start, end in zip(self.symbols, self.starts[:-1], self.starts[1:], strict=True):
            if symbol in STRESS:
                begin = start if begin is None else begin
            elif symbol == "ː" and found:
                found[-1] = (found[-1][0], found[-1][1], end)
            else:
                found.append((symbol, float(start if begin is None else begin), float(end)))
                begin = None
        return found

    def words(self) -> list[tuple[str, float, float]]:
        """Return (word, begin, end) in mel frames."""
        edges = [at for at, symbol in enumerate(self.symbols) if symbol == " "]
        firsts, lasts = [0, *(at + 1 for at in edges)], [*edges, len(self.symbols)]
        return [
            (word, float(self.starts[first]), float(self.starts[last]))
            for word, first, last in zip(self.text.split(), firsts, lasts, strict=True)
        ]


def ear_texts(seed: int) -> Iterator[str]:
    """Yield what the ear is taught, without end: sentences of the vocabulary, and its words in random order."""
    source, patterned = random.Random(f"ear {seed}"), sentences(seed)
    while True:
        if source.random() >= SCRAMBLED:
            yield next(patterned)
            continue
        text = " ".join(source.choice(VOCABULARY) for _ in range(source.randint(2, 7)))
        if not is_held_out(text):
            yield text


def mel_of(audio: np.ndarray, rate: int) -> np.ndarray:
    """Return whisper's log-mel spectrogram of `audio`, shape (80, frames), float32."""
    import librosa
    from whisper.audio import log_mel_spectrogram

    return log_mel_spectrogram(librosa.resample(audio, orig_sr=rate, target_sr=EAR_RATE)).numpy()


def make_clip(text: str, voice: str, rate: int, pitch: int) -> Clip:
    """Speak `text` and align it.

    Raises
    ------
    AlignmentError
        If espeak and the transcription of `text` differ, or espeak runs words together.
    """
    from kokoro_nb.models.phonemes import phonemise

    symbols, _ = phonemise(text, "espeak")
    if len(symbols.split(" ")) != len(text.split()):
        raise AlignmentError(f"espeak runs words of {text!r} together.")
    speech = speak(text, voice, rate, pitch)
    starts = align(symbols, speech) / (SAMPLE_RATE * MEL_SECONDS)
    mel = mel_of(speech.audio, SAMPLE_RATE).astype(np.float16)
    return Clip(text, voice, mel, symbols, starts.astype(np.float32))


def build_clips(count: int, seed: int) -> list[Clip]:
    """Make `count` clips, a multiple of 100, or read those that were made before."""

    def make(index: int) -> list[Clip]:
        source = random.Random(f"clips {seed} {index}")

        def say(text: str, _: int) -> Clip:
            return make_clip(text, source.choice(TRAINED), source.randint(*RATES), source.randint(*PITCHES))

        return first_aligned(candidates(ear_texts(seed), index, SHARD), say, SHARD)

    return build_shards(clips_folder(seed), count, SHARD, make, _write, _read)


def clips_folder(seed: int) -> Path:
    """Return the cache folder; its name changes with everything that the clips depend on."""
    recipe = "".join(islice(ear_texts(seed), 50))
    return cache_dir() / "training" / "ear_speech" / digest(repr((TRAINED, RATES, PITCHES, SHARD, seed)), recipe)[:12]


def _write(path: Path, clips: list[Clip]) -> None:
    with atomic(path) as draft, draft.open("wb") as file:
        np.savez(
            file,
            texts=np.array([clip.text for clip in clips]),
            voices=np.array([clip.voice for clip in clips]),
            symbols=np.array([clip.symbols for clip in clips]),
            frames=np.array([clip.mel.shape[1] for clip in clips]),
            mel=np.concatenate([clip.mel for clip in clips], axis=1),
            starts=np.concatenate([clip.starts for clip in clips]),
        )


def _read(path: Path) -> list[Clip]:
    with np.load(path) as stored:
        data = {name: stored[name] for name in stored.files}
    mels = np.split(data["mel"], np.cumsum(data["frames"])[:-1], axis=1)
    starts = np.split(data["starts"], np.cumsum([len(symbols) + 1 for symbols in data["symbols"]])[:-1])
    rows = zip(data["texts"], data["voices"], mels, data["symbols"], starts, strict=True)
    return [Clip(str(text), str(voice), mel, str(symbols), begin) for text, voice, mel, symbols, begin in rows]
