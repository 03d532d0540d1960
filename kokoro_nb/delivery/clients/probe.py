"""A delivery whose audio is what the program fed to it, and what can be read from that audio.

Each number is held for 600 samples as a level of 0.1 to 0.5 of full scale, with alternating sign, so that it survives
16-bit files, a change of level and a phone's file sharing. Half a second of silence stands before, between and after:
what is left of it says what the client trims.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from kokoro_nb.delivery.clients.client_contract import ClientContract
from kokoro_nb.delivery.clients.client_delivery import WORDS, require_free
from kokoro_nb.delivery.clients.client_folder import Material, write_client
from kokoro_nb.delivery.clients.exported_programs import SPEECH, UNSAID, program_place, save_program
from kokoro_nb.delivery.clients.known_clients import PREDICTOR, SYNTHESIZER, contract
from kokoro_nb.errors import InputError
from kokoro_nb.models.architecture import SAMPLE_RATE, SAMPLES_PER_FRAME, STYLE, full_config
from kokoro_nb.models.speaking import FEATURES
from kokoro_nb.storage import atomic

HOLD = SAMPLES_PER_FRAME  # samples of one number
SILENCE = SAMPLE_RATE // 2  # samples of each of the three silences
FLOOR, RANGE = 0.1, 0.4  # level of the number 0, and how much more 1 has
WHOLE = 1024.0  # ids and rows are divided by it
FASTEST = 8.0  # speeds are divided by it
LAYOUT = 777  # stands in the last column of every row
PADDING = 1023  # stands for a token that a mask hides
BEGIN, END = (1.0, 0.0, 1.0, 0.0), (0.0, 1.0, 0.0, 1.0)
QUIET = SILENCE // HOLD  # frames of a silence
REST = 3 * QUIET + len(BEGIN) + len(END) + 5  # frames beside one for each token


def _signed(numbers: Tensor) -> Tensor:
    """Return numbers of 0 to 1 as levels of alternating sign, (numbers,)."""
    side = 1.0 - 2.0 * (torch.arange(numbers.shape[0]) % 2).to(numbers.dtype)
    return (numbers * RANGE + FLOOR) * side


def _numbers(ids: Tensor, count: Tensor, about: Tensor) -> Tensor:
    """Return the level of each frame, (frames,): silences, ids, and behind them what else was fed.

    Parameters
    ----------
    ids : torch.Tensor, shape (tokens,), float32
    count : torch.Tensor, shape (1,), float32
        How many of them count.
    about : torch.Tensor, shape (4,)
        Row, voice and layout, then the speed.
    """
    front = _signed(torch.cat([torch.tensor(BEGIN), count / WHOLE, ids / WHOLE]))
    back = _signed(torch.cat([about[:3] / WHOLE, about[3:] / FASTEST, torch.tensor(END)]))
    quiet = torch.zeros(QUIET)
    return torch.cat([quiet, front, quiet, back, quiet])


class ProbeSpeech(nn.Module):
    """The whole in one program."""

    output_names = ("waveform", "duration")

    def forward(self, input_ids: Tensor, style: Tensor, speed: Tensor) -> tuple[Tensor, Tensor]:
        """Return the audio, (600 * frames,), and durations, (tokens,) int64, that add up to its frames."""
        ids = input_ids[0]
        about = torch.cat([style[0, :1], style[0, STYLE : STYLE + 1], style[0, -1:], speed])
        said = _numbers(ids.to(style.dtype), torch.ones_like(ids).sum().reshape(1).to(style.dtype), about)
        place = torch.arange(ids.shape[0])
        return said[:, None].expand(-1, HOLD).reshape(-1), torch.where(place == 0, REST + 1, 1)


class ProbePredictor(nn.Module):
    """As many frames as the audio holds numbers and silences; the speed and the style are handed on as features."""

    def forward(self, tokens: Tensor, text_mask: Tensor, voice: Tensor, speed: Tensor) -> tuple[Tensor, Tensor]:
        """Return one frame a token, and the rest at the first; the speed and the style's first value as features."""
        place = torch.arange(tokens.shape[1])
        seen = torch.cat([speed, voice[0, :1]]) + 0.0 * text_mask.sum()
        features = F.pad(seen, (0, FEATURES - 2)).expand(1, 1, FEATURES) + 0.0 * tokens[..., None]
        return torch.where(place == 0, REST + 1, 1), features


class ProbeSynthesizer(nn.Module):
    """What was fed, each number for a frame."""

    def forward(self, tokens: Tensor, text_mask: Tensor, indices: Tensor, d: Tensor, voice: Tensor) -> Tensor:
        """Return the audio, (1, 1, 600 * frames)."""
        ids = torch.where(text_mask, tokens.to(d.dtype), float(PADDING))[0]
        about = torch.stack([voice[0, 0], d[0, 0, 1], voice[0, 255], d[0, 0, 0]])
        said = _numbers(ids, text_mask.sum().to(d.dtype).reshape(1), about)
        place = torch.arange(indices.shape[0]).clamp(max=said.shape[0] - 1)
        return said[place][:, None].expand(-1, SAMPLES_PER_FRAME).reshape(1, 1, -1)


def probe_program(contract: ClientContract) -> Path:
    """Return the probe, out of the cache or made now: the same file for all that take ONNX, or the folder of a pair.

    Raises
    ------
    InputError
        If the client's programs are Core ML's, for which there is no probe.
    """
    if contract.form == "Core ML":
        raise InputError(f"There is no probe for {contract.label}, whose programs are Core ML's; probe another client.")
    whole = contract.form == "ONNX"
    folder = program_place("probe", contract)
    pair = {PREDICTOR: ProbePredictor(), SYNTHESIZER: ProbeSynthesizer()}
    for name, module in ({SPEECH: ProbeSpeech()} if whole else pair).items():
        save_program(folder / name, module, contract, contract.programs.get(name, UNSAID))
    return folder / SPEECH if whole else folder


LIMIT = 0.02  # levels below this share of full scale are silence


@dataclass(frozen=True)
class ProbeMaterial(Material):
    """What a probe is made of: tables whose first column is the number of the row."""

    def table(self, name: str, contract: ClientContract) -> np.ndarray:
        """Return (rows, 256) float32: the row's number, in column 128 the voice's, in the last `LAYOUT`."""
        rows = np.zeros((contract.voices.rows, 256), np.float32)
        rows[:, 0], rows[:, 128], rows[:, -1] = np.arange(len(rows)), list(self.voices).index(name), LAYOUT
        return rows


@dataclass(frozen=True)
class ProbeReading:
    """What a client fed to the probe, read from its audio.

    Attributes
    ----------
    ids : tuple of int
        With the pads, as fed; what a mask hides is not among them.
    row, voice : int
        Row of the table, and number of the voice.
    layout : bool
        Whether a row was read as 256 values from its beginning.
    speed : float
    gain : float
        The level of the audio relative to what the program gave.
    lead, middle, tail : float, s
        What is left of the three silences of 0.5 s.
    hidden : int
        Tokens behind the text that a mask hides.
    dtype : str
        Of the audio as it was saved: ``16 bit`` where every sample is a whole number of 2^-15, else ``float``.
    """

    ids: tuple[int, ...]
    row: int
    voice: int
    layout: bool
    speed: float
    gain: float
    lead: float
    middle: float
    tail: float
    hidden: int
    dtype: str

    @property
    def count(self) -> int:
        """Ids between the two pads."""
        return len(self.ids) - 2

    def table(self) -> list[dict[str, Any]]:
        """Return a row for each thing that was read."""
        said: dict[str, Any] = {"ids": " ".join(map(str, self.ids)), "row": self.row, "voice": self.voice}
        said |= {"speed": round(self.speed, 3), "hidden": self.hidden, "dtype": self.dtype, "gain": round(self.gain, 4)}
        said |= {f"{name} (s)": round(getattr(self, name), 3) for name in ("lead", "middle", "tail")}
        return [{"what": name, "as fed": value} for name, value in said.items()]


def write_probe(client: str, folder: str | Path, force: bool = False) -> ClientContract:
    """Write the probe delivery of a client, with the voices ``probe_0`` and ``probe_1``.

    Parameters
    ----------
    client : str
        See `known_clients.contract`.
    folder : path
        Absent or empty, unless `force` is given.

    Raises
    ------
    InputError
        If the client is unknown, or there is no probe for it, or the folder is not empty.
    """
    rules = contract(client)
    require_free(Path(folder), force)
    names = {f"probe_{number}": np.zeros((510, 256), np.float32) for number in range(2)}
    material = ProbeMaterial(probe_program(rules), {"vocab": full_config()["vocab"]}, names, "float32", WORDS)
    with atomic(folder) as draft:
        write_client(material, rules, draft)
    return rules


def read_probe(audio: np.ndarray, sample_rate: int = SAMPLE_RATE) -> ProbeReading:
    """Read what a client fed to the probe.

    Parameters
    ----------
    audio : numpy.ndarray, shape (samples,)
        What the client made of one text, any level.
    sample_rate : int, Hz

    Raises
    ------
    InputError
        If it is no such audio: resampled, compressed, or several texts in one.
    """
    audio = np.asarray(audio, np.float64).reshape(-1)
    if sample_rate != SAMPLE_RATE:
        raise InputError(f"The audio has {sample_rate} Hz and the probe {SAMPLE_RATE}; save it without resampling.")
    if not audio.size or not np.isfinite(audio).all() or not np.abs(audio).max() > 0:
        raise InputError("The audio is empty, silent or not finite; it is not what the probe says in float32.")
    edges, levels = _levels(audio)
    begin = _position(levels, BEGIN)
    end = _position(levels, END, after=begin + len(BEGIN))
    gain = levels[begin] / (FLOOR + RANGE)
    numbers = (np.abs(levels / gain) - FLOOR) / RANGE
    count = round(numbers[begin + 4] * WHOLE)
    every = [round(number * WHOLE) for number in numbers[begin + 5 : end - 4]]
    ids = tuple(number for number in every if number != PADDING)
    if len(ids) != count:
        raise InputError(f"The audio holds {len(ids)} of {count} ids: the client has cut it, or joined several texts.")
    row, voice, layout = (round(number * WHOLE) for number in numbers[end - 4 : end - 1])
    first, last = begin + 5 + len(every), end - 4
    silences = edges[begin][0], edges[last][0] - edges[first - 1][1], len(audio) - edges[end + 3][1]
    speed, dtype = float(numbers[end - 1] * FASTEST), "float" if (audio * 32768 % 1).any() else "16 bit"
    lead, middle, tail = (samples / sample_rate for samples in silences)
    hidden = len(every) - len(ids)
    return ProbeReading(ids, row, voice, layout == LAYOUT, speed, float(gain), lead, middle, tail, hidden, dtype)


def _levels(audio: np.ndarray) -> tuple[list[tuple[int, int]], np.ndarray]:
    """Return where each number begins and ends, and its signed level."""
    side = np.where(np.abs(audio) < LIMIT * np.abs(audio).max(), 0, np.sign(audio)).astype(int)
    turns = np.flatnonzero(np.diff(side)) + 1
    bounds = zip([0, *turns], [*turns, len(audio)], strict=True)
    edges = [(int(a), int(b)) for a, b in bounds if side[a] and b - a > HOLD // 2]
    return edges, np.array([np.median(audio[a:b]) for a, b in edges])


def _position(levels: np.ndarray, marker: tuple[float, ...], after: int = 0) -> int:
    """Return where the last marker of this form begins, or the first where `after` is 0."""
    wanted = np.array([FLOOR + RANGE * number for number in marker])
    found = []
    for at in range(after, len(levels) - len(marker) + 1):
        part = np.abs(levels[at : at + len(marker)])
        if np.abs(part / part.max() * wanted.max() - wanted).max() < 0.01:
            found.append(at)
    if not found:
        raise InputError("The audio holds no marker of the probe: it was made by another file, or cut.")
    return found[-1] if after else found[0]


def compare_reading(reading: ProbeReading, client: str, ids: tuple[int, ...] = (), speed: float = 0.0) -> list[str]:
    """Return a sentence for each thing that was read and is not as the contract says.

    Parameters
    ----------
    reading : ProbeReading
    client : str
        See `known_clients.contract`.
    ids : tuple of int
        What the client was to feed, with the pads; empty if that is not known.
    speed : float
        What it was to feed; 0 if that is not known.
    """
    rules, given = contract(client), tuple(ids) or reading.ids
    framed = reading.count > 0 and reading.ids[0] == reading.ids[-1] == 0 and 0 not in reading.ids[1:-1]
    row = rules.row.of(reading.count, reading.count, rules.voices.rows)
    paced, level = abs(reading.speed - (speed or reading.speed)) <= 0.01, abs(reading.gain - 1) <= 0.01
    taken = f"Row {reading.row} of the voice was taken for {reading.count} ids; the contract says {row}."
    checks = (
        (framed, f"The ids are not framed by one pad (0) on each side: {_ends(reading.ids)}."),
        (reading.ids == given, f"The ids are {_ends(reading.ids)} and were to be {_ends(given)}."),
        (reading.row == row, taken),
        (reading.layout, "The rows of the voices are not read as 256 values each: the file has another layout."),
        (paced, f"The speed fed is {reading.speed:.2f} and was to be {speed:.2f}."),
        (level, f"The client changes the level: it is {reading.gain:.3f} of what the program gave."),
    )
    return [sentence for holds, sentence in checks if not holds]


def _ends(ids: tuple[int, ...]) -> str:
    shown = [*ids[:4], "...", *ids[-4:]] if len(ids) > 9 else list(ids)
    return f"{len(ids)} ids, {' '.join(map(str, shown))}"
