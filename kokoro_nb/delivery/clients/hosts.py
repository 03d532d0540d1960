"""How each client turns text into audio with the programs of a folder, written after its contract and run here.

For machines on which the client is not installed, as none is that runs on phones or Macs alone. It shows that a folder
keeps the contract as it is written down, not that the client does.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from kokoro_nb.delivery.clients import known_clients as known
from kokoro_nb.delivery.clients.client_contract import ClientContract
from kokoro_nb.delivery.clients.client_folder import vocabulary, voice_tables
from kokoro_nb.delivery.clients.client_programs import Request, require_speakable
from kokoro_nb.delivery.clients.known_clients import FRAMES, PREDICTOR, SYNTHESIZER, TOKENS, contract
from kokoro_nb.delivery.clients.programs import PteProgram, StageProgram
from kokoro_nb.errors import InputError
from kokoro_nb.inspection.onnx_model import run_session, session_of
from kokoro_nb.models.architecture import FRAMES_PER_SECOND, HARMONICS, SAMPLE_RATE, SAMPLES_PER_FRAME, STYLE
from kokoro_nb.storage import read_json


@dataclass(frozen=True)
class ClientUtterance:
    """What a folder's programs were given and gave for one text.

    Attributes
    ----------
    ids : tuple of int
        With both pads.
    durations : numpy.ndarray or None, shape (tokens,), int64, frames
        As predicted; None where the program does not say.
    audio : numpy.ndarray, shape (samples,), float32
        As the last program gave it.
    values : mapping
        What the stages were given and gave, by name.
    frames : int
        Length that the audio has to have.
    """

    ids: tuple[int, ...]
    durations: np.ndarray | None
    audio: np.ndarray
    values: Mapping[str, np.ndarray]
    frames: int


class ClientHost:
    """Speaks from a folder as a client does.

    Parameters
    ----------
    folder : path
    contract : ClientContract
    program : str
        Of a client that takes one of several the one that is run; by default the first that is there.
    """

    def __init__(self, folder: str | Path, contract: ClientContract, program: str = ""):
        self.folder, self.contract = Path(folder), contract
        there = (name for name in contract.programs if (self.folder / name).exists())
        self.program = program or next(there, next(iter(contract.programs)))
        self._loaded: dict[str, Any] = {}

    def load(self, name: str) -> Any:
        """Return a program of the folder, loaded once."""
        if name not in self._loaded:
            kinds: dict[str, Any] = {"ONNX": onnx_session, "ExecuTorch": PteProgram, "Core ML": StageProgram}
            self._loaded[name] = kinds[self.contract.form](self.folder / name)
        return self._loaded[name]

    def utter(self, request: Request) -> ClientUtterance:
        """Speak one text of phonemes; what the table of symbols lacks is left out.

        Raises
        ------
        InputError
            If there is no such voice, the text is too long, or a program refuses what it is given.
        """
        require_speakable(self.contract, request)
        vocab = vocabulary(self.folder)
        ids = (0, *(vocab[symbol] for symbol in request.symbols if symbol in vocab), 0)
        return self.speak(ids, self.row(request, len(ids) - 2), request.speed)

    def row(self, request: Request, count: int) -> np.ndarray:
        """Return the row of the voice that the client takes, (1, 256) float32, for `count` ids between the pads."""
        voices = voice_tables(self.folder, self.contract)
        name = request.voice if request.voice in voices else str(request.number)
        if name not in voices:
            place = Path(self.contract.voices.path.format(voice=request.voice)).name
            raise InputError(f"There is no voice {place} in {self.folder}.")
        rows = voices[name]
        return rows[max(0, self.contract.row.of(count, len(request.symbols), len(rows)))][None]

    def speak(self, ids: Sequence[int], row: np.ndarray, speed: float = 1.0) -> ClientUtterance:
        """Speak ids, with both pads, in a style, (1, 256) float32: see `utter`."""
        raise NotImplementedError


def onnx_session(model: Path | bytes) -> Any:
    """Open a session of an ONNX file or model, as clients do: optimised, on as many threads as ONNX Runtime takes."""
    return session_of(model if isinstance(model, bytes) else str(model), optimised=True, threads=0)


class OnnxHost(ClientHost):
    """kokoro-onnx, sherpa-onnx, kokoro.js: three inputs by position or by name, the first output played."""

    def speak(self, ids: Sequence[int], row: np.ndarray, speed: float = 1.0) -> ClientUtterance:
        """Speak: a first output of another dtype is read as what its bytes are as float32, as sherpa-onnx does."""
        made = run_session(self.load(self.program), self.given(ids, row, speed))
        audio, lasting = next(iter(made.values())), made.get("duration")
        audio = (audio.view(np.float32) if audio.dtype == np.float16 else audio).reshape(-1)
        durations = None if lasting is None else lasting.reshape(-1).astype(np.int64)
        frames = len(audio) // SAMPLES_PER_FRAME if durations is None else int(durations.sum())
        return ClientUtterance(tuple(ids), durations, audio, made, frames)

    def given(self, ids: Sequence[int], row: np.ndarray, speed: float = 1.0) -> dict[str, np.ndarray]:
        """Return what is fed for ids in a style; a speed of whole numbers is rounded, and 1 at least."""
        taken = {value.name: value.type for value in self.load(self.program).get_inputs()}
        order = [rule.name for rule in self.contract.programs[self.program][0]]
        if self.contract.by_position:
            order = list(taken)
        elif "tokens" in taken:  # which kokoro-onnx takes too
            order[0] = "tokens"
        pace = np.array([speed], np.float32)
        if taken[order[2]].startswith("tensor(int"):
            pace = np.maximum(1, np.rint(pace)).astype(taken[order[2]][7:-1])
        return dict(zip(order, (np.array([ids]), row.astype(np.float32), pace), strict=True))


class ReactNativeHost(ClientHost):
    """react-native-executorch: durations, fitted into the room, then audio, of which the client cuts the ends."""

    def utter(self, request: Request) -> ClientUtterance:
        """Speak one text: see `ClientHost.utter`; an unknown symbol is dropped, yet counted, and nothing is refused."""
        request = replace(request, symbols=request.symbols.strip())
        least, vocab = self._least(), vocabulary(self.folder)
        count = int(np.clip(len(request.symbols) + 2, least, TOKENS[1]))
        known = [vocab[symbol] for symbol in request.symbols if symbol in vocab][: count - 2]
        row = self.row(request, len(known))
        return self.speak((0, *known, 0), row, request.speed, len(request.symbols) + 2)

    def speak(self, ids: Sequence[int], row: np.ndarray, speed: float = 1.0, shown: int = 0) -> ClientUtterance:
        """Speak: see `ClientHost.speak`; the mask shows so many tokens, by default all ids."""
        tokens, mask, durations, d = self.predict(ids, row, speed, shown)
        lasting = fitted(durations.reshape(-1), *FRAMES[:2])
        indices = np.repeat(np.arange(tokens.shape[1]), lasting)
        raw = self.load(SYNTHESIZER)(tokens, mask, indices, d, row)[0]
        values = {"tokens": tokens, "text_mask": mask, "indices": indices, "d": d, "voice": row, "audio": raw}
        return ClientUtterance(tuple(ids), durations, raw.reshape(-1), values, int(lasting.sum()))

    def predict(self, ids: Sequence[int], row: np.ndarray, speed: float = 1.0, shown: int = 0) -> list[np.ndarray]:
        """Return tokens and mask, padded to the least size, and what the first program gives for them."""
        count = int(np.clip(max(len(ids), shown), self._least(), TOKENS[1]))
        tokens, mask = np.zeros((1, count), np.int64), np.arange(count)[None] < (shown or len(ids))
        tokens[0, : len(ids)] = ids
        made = self.load(PREDICTOR)(tokens, mask, row[:, STYLE:], np.array([speed], np.float32))
        return [tokens, mask, *made]

    def _least(self) -> int:
        room = self.contract.programs[PREDICTOR][0][0].shape[1]
        return room if isinstance(room, int) else TOKENS[0]


class FluidAudioHost(ClientHost):
    """FluidAudio: seven stages, one after the other; durations are rounded and clamped between them."""

    def speak(self, ids: Sequence[int], row: np.ndarray, speed: float = 1.0) -> ClientUtterance:
        """Speak: see `ClientHost.speak`."""
        values = _stage_inputs(ids, row, speed, len(ids))
        for name in self.contract.programs:
            values |= self.load(name)(values)
            if name == known.POST_ALBERT:
                values["pred_dur"] = np.maximum(np.rint(values["duration"].astype(np.float32)), 1).astype(np.int32)
            if name == known.PROSODY:
                values |= {"F0_curve": values["F0"], "N_pred": values["N"]}
        durations = values["pred_dur"].reshape(-1).astype(np.int64)
        audio = values["audio"].reshape(-1).astype(np.float32)
        return ClientUtterance(tuple(ids), durations, audio, values, int(durations.sum()))


class KokoroCoreMlHost(ClientHost):
    """kokoro-coreml: each stage in the smallest size that holds the text, padded with zeros; the source is its own."""

    def speak(self, ids: Sequence[int], row: np.ndarray, speed: float = 1.0) -> ClientUtterance:
        """Speak: see `ClientHost.speak`."""
        tokens = [size for size in known.TOKEN_SIZES if (self.folder / known.durations_path(size)).is_dir()]
        stages = {size: known.frame_stages(size) for size in known.SECONDS}
        seconds = [size for size, names in stages.items() if all((self.folder / name).is_dir() for name in names)]
        room = _smallest(tokens, len(ids), f"{len(ids)} tokens")
        values = _stage_inputs(ids, row, speed, room)
        values |= self.load(known.durations_path(room))(values)
        durations = values["pred_dur"].reshape(-1)[: len(ids)].astype(np.int64).clip(min=0)
        frames = int(durations.sum())
        size = _smallest(seconds, frames / FRAMES_PER_SECOND, f"{frames / FRAMES_PER_SECOND:.1f} s of speech")
        token, wide = np.repeat(np.arange(len(ids)), durations), FRAMES_PER_SECOND * size
        behind = ((0, 0), (0, 0), (0, wide - frames))
        values["en"] = np.pad(values["d"][:, token].swapaxes(1, 2), behind)
        values["asr"] = np.pad(values["t_en"][:, :, token], behind)
        values["mask"] = (np.arange(wide) < frames).astype(np.float32)[None, None]
        pitch, trunk, generator = stages[size]
        values |= self.load(pitch)(values)
        values |= {"f0": values["F0_pred"].reshape(1, 1, -1), "n_input": values["N_pred"].reshape(1, 1, -1)}
        values |= self.load(trunk)(values)
        layer = read_json(self.folder / known.SOURCE, "weights of the source")
        values["har"] = hosted_har(values["f0"].reshape(-1), layer["linear_weights"], layer["linear_bias"], known.SEED)
        values |= self.load(generator)({**values, "mask": np.repeat(values["mask"], 2, axis=2)})
        audio = values["waveform"].reshape(-1)[: SAMPLES_PER_FRAME * frames].astype(np.float32)
        return ClientUtterance(tuple(ids), durations, audio, values, frames)


def _stage_inputs(ids: Sequence[int], row: np.ndarray, speed: float, room: int) -> dict[str, np.ndarray]:
    """Return what Core ML's stages are given, under the names of both clients, with room for so many tokens."""
    tokens, mask = np.zeros((1, room), np.int32), (np.arange(room) < len(ids)).astype(np.int32)[None]
    tokens[0, : len(ids)] = ids
    styles = {"ref_s": row, "s": row[:, STYLE:], "style_s": row[:, STYLE:], "style_timbre": row[:, :STYLE]}
    return {"input_ids": tokens, "attention_mask": mask, **styles, "speed": np.array([speed], np.float32)}


def _smallest(sizes: list[int], wanted: float, what: str) -> int:
    for size in sizes:
        if size >= wanted:
            return size
    most = f"at most {sizes[-1]}" if sizes else "none"
    raise InputError(f"The folder has no program for {what}, {most}; deliver more sizes, or cut the text.")


def fitted(durations: np.ndarray, least: int, most: int) -> np.ndarray:
    """Return durations that add up to a length within the program's room, as they are if they do already.

    Each is scaled and rounded up where all are to be fewer, down where more, and none falls to 0; what is left over
    goes to those that rounding changed most.

    >>> fitted(np.array([4, 4, 2]), 2, 5).tolist()
    [2, 2, 1]
    """
    total = int(durations.sum())
    target = int(np.clip(total, least, most))
    if target == total or not total:
        return durations.astype(np.int64)
    exact = durations * target / total
    rounded = np.maximum(np.ceil(exact) if target < total else np.floor(exact), durations > 0).astype(np.int64)
    step = int(np.sign(target - rounded.sum()))
    for place in np.argsort(-np.abs(rounded - exact), kind="stable")[: abs(target - int(rounded.sum()))]:
        rounded[place] += step
    return rounded


BLOCK = 300  # samples of one value of the pitch
LEVEL, VOICED, UNVOICED, THRESHOLD = 0.1, 0.003, 0.1 / 3, 10.0  # of a sine; of the noise with and without pitch; Hz
SIZE, HOP = 20, 5
_MASK = (1 << 64) - 1


def hosted_har(f0: np.ndarray, weights: Sequence[float], bias: float, seed: int) -> np.ndarray:
    """Return magnitude and phase (radians) of the source that kokoro-coreml computes.

    Parameters
    ----------
    f0 : numpy.ndarray, shape (2 * frames,), Hz
    weights : sequence of 9 float
        By which the harmonics are added up.
    bias : float
    seed : int
        Of the noise.

    Returns
    -------
    numpy.ndarray, shape (1, 22, 120 * frames + 1), float32
    """
    pitch, samples = np.asarray(f0, np.float64), BLOCK * len(f0)
    turns = np.cumsum(np.mod(pitch * np.arange(1, HARMONICS + 1)[:, None] / SAMPLE_RATE, 1.0), axis=1)
    place = np.clip((np.arange(samples) + 0.5) / BLOCK - 0.5, 0, len(pitch) - 1)
    phases = np.stack([np.interp(place, np.arange(len(pitch)), one) for one in turns * 2 * np.pi * BLOCK])
    voiced = np.repeat(pitch > THRESHOLD, BLOCK)
    sines = np.sin(phases).astype(np.float32) * np.float32(LEVEL) * voiced
    drawn = normal_noise(HARMONICS * samples, seed).reshape(HARMONICS, samples)
    mixed = sines + drawn * np.where(voiced, VOICED, UNVOICED).astype(np.float32)
    signal = np.tanh(np.asarray(weights, np.float32) @ mixed + np.float32(bias))
    padded = np.pad(signal, SIZE // 2, mode="edge")
    windows = np.lib.stride_tricks.sliding_window_view(padded, SIZE)[::HOP]
    spectrum = np.fft.rfft(windows * np.hanning(SIZE + 1)[:-1], axis=1).T
    spectrum.imag[[0, -1]] = 0.0  # of a real signal, and of either sign where it is computed
    magnitude = np.sqrt(spectrum.real**2 + spectrum.imag**2 + 1e-14)
    return np.concatenate([magnitude, np.angle(spectrum)])[None].astype(np.float32)


@lru_cache(maxsize=4)
def normal_noise(count: int, seed: int) -> np.ndarray:
    """Return `count` numbers of a normal distribution, (count,) float32: pairs, cosine before sine.

    The seed is scrambled by SplitMix64, and xorshift64 goes on from there.
    """
    state, raw = (seed + 0x9E3779B97F4A7C15) & _MASK, np.empty(count + count % 2, np.int64)
    state = (state ^ state >> 30) * 0xBF58476D1CE4E5B9 & _MASK
    state = (state ^ state >> 27) * 0x94D049BB133111EB & _MASK
    state = (state ^ state >> 31) or 0x9E3779B97F4A7C15
    for place in range(len(raw)):
        state ^= state << 13 & _MASK
        state ^= state >> 7
        state ^= state << 17 & _MASK
        raw[place] = state & 0xFFFFFF
    uniform = raw.astype(np.float32) / np.float32(0xFFFFFF)
    first, second = np.maximum(uniform[::2], np.finfo(np.float32).eps), uniform[1::2]
    radius, angle = np.sqrt(-2 * np.log(first)), np.float32(2 * np.pi) * second
    return np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=1).reshape(-1)[:count]


_HOSTS: dict[str, type[ClientHost]] = {"ONNX": OnnxHost, "ExecuTorch": ReactNativeHost, "Core ML": FluidAudioHost}


def host(folder: str | Path, rules: ClientContract) -> ClientHost:
    """Return what speaks from a folder as a client does: see `ClientHost`."""
    kind = KokoroCoreMlHost if rules.client == "kokoro-coreml" else _HOSTS[rules.form]
    return kind(folder, rules)


def imitate(client: str, folder: str | Path, requests: Sequence[Request]) -> list[np.ndarray]:
    """Speak as a client would: the arguments and the result of `client_programs.speak_in`."""
    speaker = host(folder, contract(client))
    return [speaker.utter(request).audio for request in requests]
