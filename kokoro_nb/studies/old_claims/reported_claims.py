"""The claims of the notes that this project grew from, with the figures that they report.

The fifth note is about PocketTTS, whose trials notebook 08 executes; what one of them says of classes and steps after
conversion is in 07 and 13.
"""

from dataclasses import dataclass
from typing import Any, Literal

Dependence = Literal["architecture", "weights", "device", "version"]
ClaimVerdict = Literal["confirmed", "refuted", "another cause", "needs published weights", "needs a device"]
NOTES = {
    "A": "Kokoro's decoder on ExecuTorch 0.7.0 with PyTorch 2.8.0",
    "B": "Kokoro's decoder on TVM, for LLVM and Metal",
    "D": "Kokoro for the NPU of a phone, as two ONNX stages",
    "E": "Kokoro complete in one Core ML graph, class by class",
}
PTE_MB, NODES, BLOCKING, HOP, PARAMETERS_M = 203.69, 4383, 6, 256, 110.0  # as reported
PARTS_M = {"bert": 82.0, "text_encoder": 2.0, "predictor": 1.0, "decoder": 25.0}  # decoder and generator are 10 and 15
DURATION_SHARE = (5.0, 10.0)  # percent of the compute, as reported
BUCKETS = {512: 3.0, 1536: 10.0, 2048: 8.5}  # frames -> seconds, as reported
FINITE_SHARE = 0.960938  # 246 of 256 channels, as reported


@dataclass(frozen=True)
class Claim:
    """What somebody reported.

    Attributes
    ----------
    number : str
        A letter for the note, and its place there.
    note : str
        Which port the note is about.
    reported : str
        The claim with its figures, in our words.
    depends : tuple of str
        What its figures depend on: ``architecture``, ``weights``, ``device``, ``version``.
    """

    number: str
    note: str
    reported: str
    depends: tuple[Dependence, ...]


@dataclass(frozen=True)
class Answer:
    """What is measured here, and what that says about a claim.

    Attributes
    ----------
    number : str
        Of the claim.
    measured : str
        Figures with their units, and what they were measured on.
    verdict : ClaimVerdict
        ``another cause`` where what was seen can be had here, by something other than what was blamed.
    reason : str
        Why that is the verdict.
    figures : dict
        The figures of `measured` by name, for checks.
    """

    number: str
    measured: str
    verdict: ClaimVerdict
    reason: str
    figures: dict[str, float]


@dataclass(frozen=True)
class AnsweredClaim:
    """A claim beside its answer."""

    claim: Claim
    answer: Answer

    def as_dict(self) -> dict[str, Any]:
        """Return the row of a table."""
        return {
            "claim": self.claim.number,
            "reported": self.claim.reported,
            "depends on": ", ".join(self.claim.depends),
            "measured here": self.answer.measured,
            "verdict": f"{self.answer.verdict}. {self.answer.reason}",
        }


def _claim(number: str, reported: str, *depends: str) -> Claim:
    return Claim(number, NOTES[number[0]], reported, depends)  # type: ignore[arg-type]


CLAIMS = (
    _claim(
        "A1",
        "With deterministic noise PyTorch's output ranges from -52,000 to 46,000, which is reasonable for raw audio.",
        "weights",
    ),
    _claim("A2", f"The decoder is a .pte of {PTE_MB} MB.", "architecture", "version"),
    _claim(
        "A3",
        "With XNNPACK the whole decoder is NaN while its parts work alone: combinations of layers are to blame.",
        "version",
    ),
    _claim("A4", "Without XNNPACK a convolution refuses the dim order of a tensor.", "version"),
    _claim(
        "A6",
        "Noise may be replaced by sin(137 x) cos(211 x) of the sine wave x itself, without harm.",
        "architecture",
        "weights",
    ),
    _claim("B1", "With F0 and N padded by zeros all inputs are finite, and of the output nothing is.", "version"),
    _claim("B2", f"At the first norm a share of {FINITE_SHARE} is finite: whole channels are lost.", "version"),
    _claim("B3", "The lowering of InstanceNorm is the cause; with a variance in two passes all is finite.", "version"),
    _claim("B4", "On Metal at 5120 frames: finite, a magnitude of 1e9. Suspected: exp, float16, reductions.", "device"),
    _claim("B5", "The correlation is 0.77 at 256 frames and 0.008 at 5120.", "weights", "device"),
    _claim("D1", f"Of {NODES} nodes {BLOCKING} block an NPU.", "architecture", "version"),
    _claim("D2", "The duration stage is 5 to 10 % of the compute, the acoustic stage the rest.", "architecture"),
    _claim("D3", "The hop is 256 samples: 2048 frames are 8.5 s.", "architecture"),
    _claim(
        "D4",
        "In a static bucket the padded tail is trimmed by the predicted durations, and the speech is right.",
        "architecture",
        "weights",
    ),
    _claim(
        "E1",
        f"It has {PARAMETERS_M:.0f} M parameters: BERT 82, text encoder 2, predictor 1, decoder 10, generator 15.",
        "architecture",
    ),
    _claim("E2", "An LSTM that reads the padding, not packed, equals the packed one.", "architecture"),
)
