"""Text to audio by the programs of a delivered folder, with NumPy between them and torch nowhere."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path

import numpy as np

from kokoro_nb.backends import backend
from kokoro_nb.backends.base import Program
from kokoro_nb.delivery.contract import read_contract
from kokoro_nb.errors import InputError

FADE = 0.005  # s, at each side of a join: both are near silence there, and a step between them would click


def cut(symbols: str, fits: Callable[[str], bool]) -> list[str]:
    """Return `symbols` in pieces that fit, cut behind pauses, and at spaces where what is between them does not fit.

    Parameters
    ----------
    symbols : str
        Phonemes, with spaces and punctuation.
    fits : callable
        Whether there is room for some of them.

    Raises
    ------
    InputError
        If a single word does not fit.

    Examples
    --------
    >>> cut("ab cd, ef gh. ij", lambda some: len(some) <= 9)
    ['ab cd,', 'ef gh. ij']
    """
    if fits(symbols):
        return [symbols]
    for pause in (r"(?<=[.!?…])\s+", r"(?<=[,;:—.!?…])\s+", r"\s+"):
        parts = re.split(pause, symbols)
        if len(parts) > 1:
            return _gathered(parts, fits)
    raise InputError(f"There is no room for the word '{symbols}'; deliver with more tokens or a longer bucket.")


def _gathered(parts: Sequence[str], fits: Callable[[str], bool]) -> list[str]:
    """Put neighbours together as long as they fit; a part that does not fit by itself is cut further."""
    found: list[str] = []
    for part in parts:
        longer = f"{found[-1]} {part}" if found else part
        if found and fits(longer):
            found[-1] = longer
        else:
            found += cut(part, fits)
    return found


def joined(spoken: Sequence[np.ndarray], sample_rate: int) -> np.ndarray:
    """Return the pieces one after the other, faded over 5 ms at each side of a join; one piece as it is.

    Parameters
    ----------
    spoken : sequence of numpy.ndarray, each of shape (samples,), float32
    sample_rate : int
        Hz.
    """
    ramp = np.linspace(0, 1, round(FADE * sample_rate), dtype=np.float32)
    made = [piece.copy() for piece in spoken]
    for before, after in pairwise(made):
        before[-len(ramp) :] *= ramp[::-1]
        after[: len(ramp)] *= ramp
    return np.concatenate(made)


TABLE = (510, 256)  # a style for each number of phonemes


@dataclass(frozen=True)
class Piece:
    """What is spoken at once.

    Attributes
    ----------
    symbols : str
        Phonemes of the vocabulary.
    durations : numpy.ndarray, shape (len(symbols) + 2,), int64, frames
    audio : numpy.ndarray, shape (600 * frames,), float32
        24 kHz, full scale 1.
    """

    symbols: str
    durations: np.ndarray
    audio: np.ndarray


class TwoStages:
    """What is in a delivered folder, ready to speak.

    Parameters
    ----------
    folder : path
        What `deliver` wrote.

    Raises
    ------
    InputError
        If it is none, or nothing here runs its programs.
    """

    def __init__(self, folder: str | Path):
        self.folder, self.contract = Path(folder), read_contract(folder)
        wanted = {part.backend: backend(part.backend) for part in self.contract.parts.values()}
        absent = [reason for one in wanted.values() if (reason := one.executes())]
        if absent:
            raise InputError(absent[0])
        self._loaded: dict[str, Program] = {}

    def speak(self, text: str, voice: str = "", speed: float = 1.0, seed: int = 0) -> np.ndarray:
        """Return the speech, shape (samples,), float32, 24 kHz, full scale 1: see `pieces`, joined."""
        spoken = self.pieces(text, voice, speed, seed)
        return joined([piece.audio for piece in spoken], self.contract.sample_rate)

    def pieces(self, text: str, voice: str = "", speed: float = 1.0, seed: int = 0) -> tuple[Piece, ...]:
        """Speak `text`, in one piece if it has room.

        What has none is cut at its pauses, and at its spaces where that is not enough; nothing is left out.

        Parameters
        ----------
        text : str
            American English.
        voice : str
            One of the folder's; the first by default.
        speed : float
            Above 0; 2 halves the durations.
        seed : int
            Seed of the source's noise.

        Raises
        ------
        InputError
            If the text is empty, the voice or the speed is no good, or a single word has no room.
        """
        if not 0 < speed < float("inf"):
            raise InputError(f"The speed must be a number above 0, it is {speed}; 1 is normal, 2 is twice as fast.")
        known = self.symbols(text)
        if not any(symbol.isalpha() for symbol in known):
            raise InputError(f"Nothing in the text {text!r} can be pronounced; give at least one word.")
        table, noise = self.table(voice), self.noise(seed)
        predicted: dict[str, dict[str, np.ndarray]] = {}

        def fits(some: str) -> bool:
            if len(some) + 2 > self.contract.tokens:
                return False
            made = self.predict(some, table, speed)
            if made["asr"].shape[-1] > self.largest:
                return False
            predicted[some] = made
            return True

        return tuple(
            Piece(some, predicted[some]["durations"], self.decode(predicted[some], noise)) for some in cut(known, fits)
        )

    def symbols(self, text: str) -> str:
        """Return the phonemes of a text, those of the vocabulary alone.

        Raises
        ------
        InputError
            If the text is empty.
        """
        from kokoro_nb.models.phonemes import phonemise

        symbols, _ = phonemise(text, self.contract.g2p)  # type: ignore[arg-type]
        return "".join(symbol for symbol in symbols if symbol in self.contract.vocab)

    def noise(self, seed: int) -> Callable[[int], np.ndarray]:
        """Return what draws the source's noise for so many frames: (1, 600 * frames, 9) float32, new at each call."""
        draws, width = np.random.default_rng(seed), self.contract.width("harmonic_noise")

        def drawn(frames: int) -> np.ndarray:
            return draws.standard_normal((1, frames * self.contract.samples_per_frame, width), dtype=np.float32)

        return drawn

    def predict(self, symbols: str, table: np.ndarray, speed: float = 1.0) -> dict[str, np.ndarray]:
        """Run the first stage.

        Parameters
        ----------
        symbols : str
            Phonemes of the vocabulary, at most two less than there is room for.
        table : numpy.ndarray, shape (510, 256), float32
            The voice.
        speed : float
            Divides the durations.

        Returns
        -------
        dict
            ``durations`` (tokens,) int64, frames; ``en`` (1, hidden + 128, frames), ``asr`` (1, hidden, frames):
            the features of each token repeated for as long as it lasts; ``ref_s`` (1, 256).

        Raises
        ------
        InputError
            If there is no room for so many phonemes.
        """
        if len(symbols) + 2 > self.contract.tokens:
            room = self.contract.tokens - 2
            raise InputError(f"{len(symbols)} phonemes have no room where {room} have; cut the text.")
        count, ref_s = len(symbols) + 2, table[len(symbols) - 1][None]
        ids = np.zeros((1, self.contract.tokens if self.contract.buckets else count), dtype=np.int64)
        ids[0, 1 : count - 1] = [self.contract.vocab[symbol] for symbol in symbols]
        given = {"ids": ids, "length": np.array([count]), "ref_s": ref_s, "speed": np.array([speed], np.float32)}
        made = self.run("duration", given)
        durations = made["pred_dur"][0, :count]
        token = np.repeat(np.arange(count), durations)
        en, asr = made["d"][:, token].transpose(0, 2, 1), made["t_en"][:, :, token]
        return {"durations": durations, "en": en, "asr": asr, "ref_s": ref_s}

    def decode(self, features: dict[str, np.ndarray], noise: Callable[[int], np.ndarray]) -> np.ndarray:
        """Run the second stage, in the smallest bucket that has room, and cut the audio to its length.

        Parameters
        ----------
        features : dict
            What `predict` returned.
        noise : callable
            Number of frames -> the source's noise, (1, 600 * frames, 9) float32, standard deviations.

        Returns
        -------
        numpy.ndarray, shape (600 * frames,), float32
        """
        samples = features["asr"].shape[-1] * self.contract.samples_per_frame
        return self.sound(self.decoder_inputs(features, noise))[:samples]

    def decoder_inputs(
        self, features: dict[str, np.ndarray], noise: Callable[[int], np.ndarray]
    ) -> dict[str, np.ndarray]:
        """Return what the decoder is given, in the smallest bucket that has room: zeros behind the text.

        Parameters
        ----------
        features, noise
            See `decode`.

        Returns
        -------
        dict
            ``asr``, ``f0`` (Hz) and ``n`` (1, 2 * room), ``s``, ``length`` in frames, ``harmonic_noise``, and ``har``
            where the decoder begins there. Without buckets there is room for the text alone.
        """
        frames = features["asr"].shape[-1]
        name, room = self.bucket(frames)
        known = {part: _widened(features[part], room) for part in ("asr", "en")}
        known |= {"ref_s": features["ref_s"], "s": features["ref_s"][:, : self.contract.width("s")]}
        known["length"] = np.array([frames])
        known["harmonic_noise"] = _widened(noise(frames), room * self.contract.samples_per_frame, axis=1)
        for stage in ("prosody", "source"):
            part = self.contract.part_name(stage, name)
            if part in self.contract.parts:
                known |= self.run(part, known)
        return known

    def sound(self, given: dict[str, np.ndarray]) -> np.ndarray:
        """Run the decoder on what `decoder_inputs` returned; return the audio of the whole bucket, (600 * room,)."""
        name, _ = self.bucket(int(given["length"][0]))
        (audio,) = self.run(self.contract.part_name("decoder", name), given).values()
        return audio.reshape(-1)

    def run(self, name: str, known: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Run the part `name` on those of `known` that it takes; return its outputs by name."""
        if name not in self._loaded:
            made = self.contract.artifact(name, self.folder)
            self._loaded[name] = backend(made.backend).load(made)
        return self._loaded[name].run({spec.name: known[spec.name] for spec in self.contract.parts[name].inputs})

    def bucket(self, frames: int) -> tuple[str, int]:
        """Return name and room of the smallest bucket that has room for `frames`; '' and `frames` without buckets.

        Raises
        ------
        InputError
            If there is no room for so many.
        """
        if frames > self.largest:
            raise InputError(f"{frames} frames have no room where {self.largest:g} have; cut the text.")
        if not self.contract.buckets:
            return "", frames
        room, name = min((room, name) for name, room in self.contract.buckets.items() if frames <= room)
        return name, room

    @cached_property
    def largest(self) -> float:
        """The most frames that are decoded at once: infinity where there is no limit."""
        return max(self.contract.buckets.values(), default=self.contract.most_frames or float("inf"))

    def table(self, voice: str = "") -> np.ndarray:
        """Return a voice, (510, 256) float32, the first by default: row i is the style for i + 1 phonemes.

        Raises
        ------
        InputError
            If there is no such voice, or its file holds something else than was delivered.
        """
        name = voice or next(iter(self.contract.voices))
        if name not in self.contract.voices:
            known = ", ".join(self.contract.voices)
            raise InputError(f"The folder has no voice '{name}'; use one of {known}, or deliver it with this one.")
        self.contract.require_whole(self.contract.voices[name], self.folder)
        return read_table(self.folder / self.contract.voices[name])


def read_table(path: Path) -> np.ndarray:
    """Read a voice's table, (510, 256) float32.

    Raises
    ------
    InputError
        If the file holds something else.
    """
    try:
        table = np.lib.format.open_memmap(path, mode="r")  # which takes no memory for what the file only claims
        if table.shape != TABLE or table.dtype != np.float32 or not np.isfinite(table).all():
            raise ValueError(f"it holds {table.dtype} {table.shape}, or NaN")
    except (OSError, ValueError, TypeError, SyntaxError, EOFError, OverflowError) as error:
        raise InputError(f"{path} is no voice of {TABLE} float32 ({error}); deliver the folder again.") from error
    return np.array(table)


def _widened(values: np.ndarray, room: int, axis: int = 2) -> np.ndarray:
    """Return `values` with zeros behind them along `axis`, contiguous."""
    missing = room - values.shape[axis]
    return np.ascontiguousarray(np.pad(values, [(0, missing if at == axis else 0) for at in range(values.ndim)]))
