"""What a program in the field expects of a Kokoro file, as data."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from kokoro_nb.models.architecture import SAMPLE_RATE

Dtype = Literal["float32", "float16", "int8"]
STORED: tuple[Dtype, ...] = ("float32", "float16", "int8")
Form = Literal["ONNX", "ExecuTorch", "Core ML"]


@dataclass(frozen=True)
class TensorRule:
    """One input or output of a program.

    Attributes
    ----------
    name : str
        As the client names it; where it goes by position, the name that we write.
    dtype : str
        ``int64``, ``float32`` ...
    shape : tuple of (int or str)
        A string is an axis whose size the text decides.
    """

    name: str
    dtype: str
    shape: tuple[int | str, ...]


Signature = tuple[tuple[TensorRule, ...], tuple[TensorRule, ...]]  # inputs, outputs
Programs = Mapping[str, Signature]  # by path in the folder
Ranges = Mapping[str, tuple[int, int, int]]  # axis that the text decides -> least size, greatest size, step


@dataclass(frozen=True)
class VoicesRule:
    """How the voices lie in the folder.

    Attributes
    ----------
    path : str
        File in the folder; ``{voice}`` stands for a name where each voice has a file of its own.
    form : {"npz", "raw", "raw of all"}
        ``npz``: name -> (rows, 1, 256). ``raw``: float32, little endian, (rows, 256), no header. ``raw of all``: the
        same, speaker after speaker.
    rows : int
        Rows that a table has to have.
    """

    path: str
    form: Literal["npz", "raw", "raw of all"]
    rows: int


@dataclass(frozen=True)
class RowRule:
    """Which row of the table a client takes for a text.

    Attributes
    ----------
    words : str
        For people: ``n - 1`` where n is the number of ids between the two pads.
    of : callable
        Number of ids between the pads, number of symbols of the phoneme string, rows of the table -> row.
    """

    words: str
    of: Callable[[int, int, int], int]


@dataclass(frozen=True)
class ClientContract:
    """What one program expects.

    Attributes
    ----------
    client, versions : str
        Its name, and the versions for which the contract is known, in words.
    known : tuple of str
        The same as prefixes of version numbers: ``("0.6",)``.
    programs : mapping
        Path in the folder -> (inputs, outputs), in the order that the client relies on.
    by_position : bool
        Whether the names are free and the order counts, not the other way round.
    voices : VoicesRule
    row : RowRule
    metadata : mapping
        Keys that the file has to carry -> value; an empty value means any.
    files : tuple of str
        Further files that have to be there.
    max_tokens : int
        Ids between the pads that the client and the model take at most.
    min_speed, max_speed : float
    opset, ir_version : int
        The highest that the client's runtime reads; 0 where there is no ONNX.
    stored : tuple of str
        The dtypes in which weights may be stored. What the program is given and gives stays as it is in `programs`.
    audio : str
        What the client does to the audio by default.
    raw : str
        With which settings it does nothing to it.
    alternatives : bool
        Whether one of the programs is enough, each a form of the same, and not all are needed.
    sample_rate : int, Hz
    level : float
        The audio's level relative to PyTorch's `torch.istft`.
    ranges : mapping
        See `Ranges`; where the program has to say so.
    form : {"ONNX", "ExecuTorch", "Core ML"}
        Of the programs.
    phonemes : bool
        Whether the program can be given phonemes, and not text alone.
    makes_noise : bool
        Whether the client makes the source's noise itself, so that the file leaves no choice of it.
    """

    client: str
    versions: str
    known: tuple[str, ...]
    programs: Programs
    by_position: bool
    voices: VoicesRule
    row: RowRule
    metadata: Mapping[str, str]
    files: tuple[str, ...]
    max_tokens: int
    min_speed: float
    max_speed: float
    opset: int
    ir_version: int
    stored: tuple[Dtype, ...]
    audio: str
    raw: str
    alternatives: bool = False
    sample_rate: int = SAMPLE_RATE
    level: float = 1.0
    ranges: Ranges = field(default_factory=dict)
    form: Form = "ONNX"
    makes_noise: bool = False
    phonemes: bool = True

    @property
    def label(self) -> str:
        """The name with its versions."""
        return f"{self.client} {self.versions}"


def speech_rules(tokens: str = "input_ids") -> Signature:
    """Return inputs and outputs of the one ONNX file that kokoro-onnx, sherpa-onnx and kokoro.js take."""
    style, speed = TensorRule("style", "float32", (1, 256)), TensorRule("speed", "float32", (1,))
    waveform, duration = TensorRule("waveform", "float32", ("samples",)), TensorRule("duration", "int64", ("tokens",))
    return (TensorRule(tokens, "int64", (1, "tokens")), style, speed), (waveform, duration)
