"""A thing in a folder that is not as a client's contract says, and what one would hear of it."""

from collections.abc import Mapping
from dataclasses import dataclass

CONSEQUENCES: Mapping[str, str] = {
    "program missing": "The client does not start.",
    "program unreadable": "The client does not start.",
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
    "number of outputs": "The client ends with an error at the first text.",
    "output dtype": "The client ends with an error, or reads the bytes as other numbers.",
    "output shape": "The client ends with an error, or reads other numbers.",
    "audio dtype": "The bytes are read as float32: noise at full scale, of half the length.",
    "metadata missing": "The client ends while it loads, or takes its own table of symbols: other sounds.",
    "metadata value": "The client ends while it loads, or reads the voices with another number of rows.",
    "voices missing": "The client does not start.",
    "voices form": "The client does not start, or reads other numbers as the style: another voice, or noise.",
    "voices rows": "The row for a long text is missing: the client ends, or takes that of a shorter one.",
    "voices count": "The client ends while it loads, or reads one voice as the end of another.",
    "voices not finite": "Speech is silent or not a number.",
    "file missing": "The client does not start.",
    "checksum": "The file is not the one that was delivered: it was cut on its way, or changed since.",
    "symbols": "Other sounds are spoken than were asked for, or the client ends with an error.",
    "pad": "The id 0 is a symbol's: it is spoken before and after each text.",
    "id out of range": "The client ends with an error at the first text that has this symbol.",
    "draws": "No two runs are alike, and none can be compared with PyTorch.",
    "level": "The audio is too quiet or too loud, and its lowest and highest tones are not in proportion.",
    "does not run": "The client ends with an error at the first text.",
    "not finite": "Silence, a click, or an error of the client.",
    "silent": "Nothing is heard.",
    "clipped": "The audio is above full scale and distorted wherever it is played.",
    "schema missing": "Every size reads as fixed: the client refuses the program when it loads it.",
    "schema form": "The client refuses the program when it loads it.",
    "schema dtype": "The client refuses the program when it loads it.",
    "schema size": "The client refuses the program when it loads it.",
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
