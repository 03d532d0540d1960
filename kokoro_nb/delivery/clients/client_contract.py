"""What a program in the field expects of a Kokoro file, as data."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from kokoro_nb.models.architecture import SAMPLE_RATE

Dtype = Literal["float32", "float16", "int8"]
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
        Its name, and the version that the contract was read of.
    older : tuple of str
        Further versions for which it holds.
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
        The highest that the client's runtime reads, where the programs are ONNX.
    stored : tuple of str
        The dtypes in which weights may be stored. What the program is given and gives stays as it is in `programs`.
    audio : str
        What the client does to the audio by default.
    raw : str
        With which settings it does nothing to it.
    alternatives : bool
        Whether one of the programs is enough, each a form of the same, and not all are needed.
    sample_rate : int, Hz
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
    programs: Programs
    row: RowRule
    voices: VoicesRule = VoicesRule("voices/{voice}.bin", "raw", 510)
    older: tuple[str, ...] = ()
    by_position: bool = False
    metadata: Mapping[str, str] = field(default_factory=dict)
    files: tuple[str, ...] = ()
    max_tokens: int = 510
    min_speed: float = 0.5
    max_speed: float = 2.0
    opset: int = 17
    ir_version: int = 13
    stored: tuple[Dtype, ...] = get_args(Dtype)
    audio: str = "nothing"
    raw: str = "as it is"
    alternatives: bool = False
    sample_rate: int = SAMPLE_RATE
    ranges: Ranges = field(default_factory=dict)
    form: Form = "ONNX"
    makes_noise: bool = False
    phonemes: bool = True

    @property
    def label(self) -> str:
        """The name with its versions."""
        return f"{self.client} {self.versions}"

    @property
    def known(self) -> tuple[str, ...]:
        """The versions that it holds for."""
        return (self.versions, *self.older)

    def covers(self, version: str) -> bool:
        """Say whether it holds for a version: one of `known`, or a later part of one."""
        return any(version == known or version.startswith(f"{known}.") for known in self.known)


def signature(text: str, **sizes: int | str) -> Signature:
    """Return inputs and outputs that are written as ``name dtype axis axis, ... -> name dtype axis ...``.

    Parameters
    ----------
    text : str
        An axis is a number, or a word for what the text decides.
    **sizes : int or str
        What stands in the place of a word.

    Examples
    --------
    >>> signature("ids int64 1 tokens -> audio float32 samples", samples=600)[1]
    (TensorRule(name='audio', dtype='float32', shape=(600,)),)
    """
    inputs, outputs = (tuple(_rule(one.split(), sizes) for one in side.split(",")) for side in text.split("->"))
    return inputs, outputs


def _rule(words: list[str], sizes: Mapping[str, int | str]) -> TensorRule:
    name, dtype, *axes = words
    return TensorRule(name, dtype, tuple(int(axis) if axis.isdigit() else sizes.get(axis, axis) for axis in axes))


CONSEQUENCES: Mapping[str, str] = {
    **dict.fromkeys(
        ("program missing", "program unreadable", "voices missing", "file missing"), "The client does not start."
    ),
    "weights missing": "The client does not start: the weights in a file of their own are not there.",
    "IR version": "The client does not start: its runtime reads no file of so new a form.",
    "opset": "The client does not start: its runtime does not know the operators.",
    "foreign operators": "The client does not start where its runtime lacks these operators.",
    "number of inputs": "The client feeds three inputs, and ends with an error.",
    "input name": "The client feeds inputs by name, and ends with an error.",
    "input order": "The client feeds inputs by position: the style is read as the speed, or it ends with an error.",
    "input dtype": "The client ends with an error.",
    "integer speed": "Speeds are rounded: 0.8 and 1.4 are spoken as 1, or 0.8 as 0, which fails.",
    "input shape": "The client ends with an error, or speaks texts of one length alone.",
    "length limits": "The client refuses texts that it should speak, or ends with an error.",
    "output order": "The first output is played: the durations are heard as a click in place of speech.",
    "output name": "The client finds no audio, or gives no times of words.",
    **dict.fromkeys(("number of outputs", "does not run"), "The client ends with an error at the first text."),
    "output dtype": "The client ends with an error, or reads the bytes as other numbers.",
    "output shape": "The client ends with an error, or reads other numbers.",
    "audio dtype": "The bytes are read as float32: noise at full scale, of half the length.",
    "metadata missing": "The client ends while it loads, or takes its own table of symbols: other sounds.",
    "metadata value": "The client ends while it loads, or reads the voices with another number of rows.",
    "voices form": "The client does not start, or reads other numbers as the style: another voice, or noise.",
    "voices rows": "The row for a long text is missing: the client ends, or takes that of a shorter one.",
    "voices count": "The client ends while it loads, or reads one voice as the end of another.",
    "voices not finite": "Speech is silent or not a number.",
    "checksum": "The file is not the one that was delivered: it was cut on its way, or changed since.",
    "symbols": "Other sounds are spoken than were asked for, or the client ends with an error.",
    "pad": "The id 0 is a symbol's: it is spoken before and after each text.",
    "id out of range": "The client ends with an error at the first text that has this symbol.",
    "draws": "No two runs are alike, and none can be compared with PyTorch.",
    "level": "The audio is too quiet or too loud, and its lowest and highest tones are not in proportion.",
    "not finite": "Silence, a click, or an error of the client.",
    "silent": "Nothing is heard.",
    "clipped": "The audio is above full scale and distorted wherever it is played.",
    "schema missing": "Every size reads as fixed: the client refuses the program when it loads it.",
    **dict.fromkeys(("schema form", "schema dtype", "schema size"), "The client refuses the program when it loads it."),
    "schema range": "The client refuses the program, or cuts texts shorter than it has to.",
    "schema constraints": "The client refuses the program when it loads it: constraints have to be exactly its own.",
    "mask reversed": "The mask is read as the published model's, True on padding: nothing or noise is heard.",
    "mask missing": "Padding is read as speech: the level of the whole and the end of each text are off.",
    "padding leaks": "A text sounds different in a larger size, and its end has sounds of no symbol.",
    "phase": "The lowest and the highest tone of the source are turned over: the voice is rough.",
    "padding lasts": "Short texts are padded: their ends are spoken longer, with sounds of no symbol.",
    "durations": "Tokens without a frame are not spoken.",
    "length": "Durations do not add up to the audio: times of words are wrong, or speech is cut.",
    "speed ignored": "Speech does not get faster or slower.",
    "style ignored": "All voices sound the same.",
    "not repeatable": "Two runs on one text differ.",
}


@dataclass(frozen=True)
class ContractDeviation:
    """One thing in a folder that is not as the contract says.

    Attributes
    ----------
    rule : str
        A key of `CONSEQUENCES`.
    where : str
        The file, and what in it.
    expected, found : str
    """

    rule: str
    where: str
    expected: str
    found: str

    @property
    def consequence(self) -> str:
        """What one would hear of it."""
        return CONSEQUENCES[self.rule]

    def __str__(self) -> str:
        return f"{self.where}: {self.rule}: {self.found}, expected {self.expected}. {self.consequence}"


class Deviations(list[ContractDeviation]):
    """What deviates in a folder, in the order in which it was found."""

    def require(self, holds: Any, rule: str, where: str, expected: Any, found: Any) -> bool:
        """Note a deviation unless something holds, and return whether it does: see `ContractDeviation`."""
        if not holds:
            self.append(ContractDeviation(rule, where, str(expected), str(found)))
        return bool(holds)

    def same(self, rule: str, where: str, expected: Any, found: Any) -> bool:
        """Require that what was found is what was expected: see `require`."""
        return self.require(expected == found, rule, where, expected, found)
