"""22 takes the notes that this project grew from claim by claim, and measures what can be measured here.

The fifth note is about PocketTTS, whose trials notebook 08 executes; what one of them says of classes and steps after
conversion is in 07 and 13.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import torch
from kokoro.model import KModel
from torch.utils.flop_counter import FlopCounterMode

from kokoro_nb.errors import InputError
from kokoro_nb.models import model_cuts
from kokoro_nb.models.architecture import STYLE, build, full_config
from kokoro_nb.models.kokoro import BUNDLED, GENERATED
from kokoro_nb.models.padding import widened
from kokoro_nb.models.speaking import DurationStage
from kokoro_nb.studies.executorch_0_7 import files, read_record
from kokoro_nb.studies.padding import padded_run
from kokoro_nb.studies.two_stage_npu.npu_audit import uncut_audit

ClaimVerdict = Literal["confirmed", "refuted", "another cause", "needs published weights", "needs a device"]
WEIGHTS: ClaimVerdict = "needs published weights"
NOTES = {
    "A": "Kokoro's decoder on ExecuTorch 0.7.0 with PyTorch 2.8.0",
    "B": "Kokoro's decoder on TVM, for LLVM and Metal",
    "D": "Kokoro for the NPU of a phone, as two ONNX stages",
    "E": "Kokoro complete in one Core ML graph, class by class",
}
FRAMES = 24  # of the decoder whose work is counted; it is in proportion to them


@dataclass(frozen=True)
class Claim:
    """What somebody reported.

    Attributes
    ----------
    reported : str
        The claim in our words, with a pair of braces for each figure of `said`.
    depends : str
        What its figures depend on: ``architecture``, ``weights``, ``device``, ``version``.
    why : str or mapping
        Why the verdict is what it is; where that differs, by verdict.
    said : tuple of float
        Figures that are compared with what is measured.
    """

    reported: str
    depends: str
    why: str | Mapping[ClaimVerdict, str]
    said: tuple[float, ...] = ()


class AnsweredClaims:
    """The claims of the notes, and what was measured of each.

    Attributes
    ----------
    reported : mapping
        Number -> claim: the letter of its note, and its place there.
    verdicts : dict
        Number -> verdict on it: ``another cause`` where what was seen can be had here, by something other than what was
        blamed.
    """

    def __init__(self, weights: str) -> None:
        """Expect no published figure of `weights` that this project makes."""
        self.reported: Mapping[str, Claim] = CLAIMS
        self.verdicts: dict[str, ClaimVerdict] = {}
        self._own = weights in {*GENERATED, *BUNDLED}
        self._rows: dict[str, dict[str, str]] = {}

    def answer(self, number: str, verdict: ClaimVerdict, measured: str) -> None:
        """Put an answer to a claim; one about weights alone is open on weights that are made here.

        Parameters
        ----------
        number : str
            Of the claim.
        verdict : ClaimVerdict
            That follows from the figures.
        measured : str
            Figures with their units, and what they were measured on.

        Raises
        ------
        InputError
            If there is no such claim, or it is answered already.
        """
        if number not in CLAIMS or number in self.verdicts:
            open_claims = ", ".join(one for one in CLAIMS if one not in self.verdicts)
            raise InputError(f"There is no claim {number} to be answered; there are {open_claims or 'none'}.")
        claim = CLAIMS[number]
        self.verdicts[number] = said = WEIGHTS if self._own and claim.depends == "weights" else verdict
        row = {"claim": number, "reported": claim.reported.format(*claim.said), "depends on": claim.depends}
        why = claim.why if isinstance(claim.why, str) else claim.why[said]
        self._rows[number] = {**row, "measured here": measured, "verdict": f"{said}. {why}"}

    def table(self, note: str) -> dict[str, Any]:
        """Return rows and caption of a table for the note with this letter."""
        rows = [self._rows[number] for number in CLAIMS if number in self._rows and number.startswith(note)]
        return {"rows": rows, "caption": NOTES[note]}

    def counts(self) -> list[dict[str, Any]]:
        """Return the rows of a table: verdict, how many claims have it, and which."""
        found: dict[str, list[str]] = {}
        for number in sorted(self.verdicts):
            found.setdefault(self.verdicts[number], []).append(number)
        return [{"verdict": v, "claims": len(each), "which": ", ".join(each)} for v, each in found.items()]


def flops(full: KModel, tokens: int, frames: int) -> dict[str, float]:
    """Return the floating-point operations of both stages, those of products and convolutions.

    Parameters
    ----------
    full : kokoro.model.KModel
        Of the published size.
    tokens, frames : int
        Of an utterance.
    """
    with torch.device("meta"), torch.no_grad():  # shapes alone
        model = build(full_config())
        ids, style, one = torch.zeros(1, tokens, dtype=torch.long), torch.zeros(1, 2 * STYLE), torch.ones(1)
        duration = _counted(lambda: DurationStage(model)(ids, torch.full((1,), tokens), style, one))
        wide = torch.zeros(1, full.predictor.lstm.input_size, frames)
        prosody = _counted(lambda: model_cuts.prosody(model.predictor, wide, torch.zeros(1, STYLE)))
    with torch.no_grad():
        features = full.text_encoder.embedding.embedding_dim
        curve = torch.zeros(1, 2 * FRAMES)
        given = (torch.zeros(1, features, FRAMES), curve, curve, torch.zeros(1, STYLE))
        decoder = _counted(lambda: full.decoder(*given)) * frames / FRAMES
    return {"duration": duration, "acoustic": prosody + decoder}


def _counted(call: Callable[[], Any]) -> float:
    with FlopCounterMode(display=False) as counter:
        call()
    return float(counter.get_total_flops())


CLAIMS = {
    "A1": Claim(
        "With deterministic noise PyTorch's output ranges from -52,000 to 46,000, which is reasonable for raw audio.",
        "weights",
        {
            WEIGHTS: "Full scale is 1, here as there; the figure itself is that of weights.",
            "another cause": "Full scale is 1: silence behind the valid frames makes it so loud.",
            "refuted": "Padding does not bring these weights near such a range.",
        },
    ),
    "A2": Claim(
        "The decoder is a .pte of {} MB.",
        "architecture, version",
        "Compared with the weights alone; its MB are MiB.",
        (203.69,),
    ),
    "A3": Claim(
        "With XNNPACK the whole decoder is NaN while its parts work alone: combinations of layers are to blame.",
        "version",
        "XNNPACK takes no norm. The portable kernel adds its sums to memory that is not cleared, and it shows only "
        "where that memory was used before.",
    ),
    "A4": Claim(
        "Without XNNPACK a convolution refuses the dim order of a tensor.",
        "version",
        "CustomSTFT's weights are a transposed view; `.contiguous()` mends it, and no kernel is wrong.",
    ),
    "A6": Claim(
        "Noise may be replaced by sin(137 x) cos(211 x) of the sine wave x itself, without harm.",
        "architecture, weights",
        "It is silent where the signal is: the padding is constant and its variance collapses. Noise of its own keeps "
        "some variance there.",
    ),
    "B1": Claim(
        "With F0 and N padded by zeros all inputs are finite, and of the output nothing is.",
        "version",
        "Finite inputs are enough, if channels hardly vary beside their mean; zeros behind the text make such.",
    ),
    "B2": Claim(
        "At the first norm a share of 0.960938 is finite: whole channels are lost.",  # 246 of 256 channels
        "version",
        "A variance belongs to a channel, and so does its NaN; the next convolution hands it to all.",
    ),
    "B3": Claim(
        "The lowering of InstanceNorm is the cause; with a variance in two passes all is finite.",
        "version",
        "E[x²] - E[x]² in float32 is below zero by more than the epsilon.",
    ),
    "B4": Claim(
        "On Metal at 5120 frames: finite, a magnitude of 1e9. Suspected: exp, float16, reductions.",
        "device",
        "No Metal is needed for such a magnitude: float32 on a CPU gives it, as the padding's variance collapses.",
    ),
    "B5": Claim(
        "The correlation is 0.77 at 256 frames and 0.008 at 5120.",
        "weights, device",
        "It falls with the share of padding, on no runtime but PyTorch.",
    ),
    "D1": Claim(
        "Of 4383 nodes {} block an NPU.",
        "architecture, version",
        {"confirmed": "The same nodes.", "refuted": "The kinds are right; more nodes work on sequences."},
        (6,),
    ),
    "D2": Claim(
        "The duration stage is {} to {} % of the compute, the acoustic stage the rest.",
        "architecture",
        "The share grows with the tokens for a frame, that is with the speed of speech.",
        (5, 10),
    ),
    "D3": Claim(
        "The hop is {} samples: 2048 frames are 8.5 s.",
        "architecture",
        "A frame is 25 ms: buckets that are sized by another hop hold more than twice what they say.",
        (256,),
    ),
    "D4": Claim(
        "In a static bucket the padded tail is trimmed by the predicted durations, and the speech is right.",
        "architecture, weights",
        "What stands behind the valid frames has changed them before anything is trimmed.",
    ),
    "E1": Claim(
        "It has {} M parameters: BERT {}, text encoder {}, predictor {}, decoder {}, generator {}.",
        "architecture",
        "BERT has few parameters, which its layers share; most are the decoder's.",
        (110, 82, 2, 1, 10, 15),
    ),
    "E2": Claim(
        "An LSTM that reads the padding, not packed, equals the packed one.",
        "architecture",
        "The second direction begins in the padding; where there is none, or it is reversed by length, it is equal.",
    ),
}
