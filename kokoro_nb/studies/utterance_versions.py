"""One utterance in every version that is to be compared: the package's own, the patched one, each runtime's."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from kokoro_nb.locate.survey import survey
from kokoro_nb.models import stages
from kokoro_nb.models.case import Case
from kokoro_nb.models.decoding import decode
from kokoro_nb.models.kokoro import Kokoro
from kokoro_nb.models.patches import EXPORT_PATCHES, patched

PACKAGE = "package"
CUSTOM = "custom_stft only"
PATCHED = "eager"
FLOOR = "eager-float64"


@dataclass(frozen=True)
class Version:
    """One version of the utterance.

    Attributes
    ----------
    label : str
        ``package`` (unpatched), ``custom_stft only``, or the backend that ran the patched decoder.
    audio : numpy.ndarray or None, shape (600 * frames,), float32
        24 kHz, full scale 1; None where it could not be made.
    reason : str
        Why not.
    """

    label: str
    audio: np.ndarray | None
    reason: str = ""


def versions(
    kokoro: Kokoro, case: Case, backends: Sequence[str], frames: int | None = None, folder: str | Path | None = None
) -> tuple[Version, ...]:
    """Decode `case` in every version, all on the same noise.

    Returns
    -------
    tuple of Version
        ``package`` first: what the unpatched model says. Then ``custom_stft only``, and the decoder with all export
        patches on ``eager``, ``eager-float64`` and each of `backends`.
    """
    made = [
        Version(PACKAGE, decode(kokoro.model, case, (), frames)),
        Version(CUSTOM, decode(kokoro.model, case, ("custom_stft",), frames)),
    ]
    inputs = case.decoder_inputs(frames)
    names = [PATCHED, FLOOR, *(name for name in backends if name not in (PATCHED, FLOOR))]
    with patched(kokoro.model, EXPORT_PATCHES):
        rows = survey(stages.DecoderStage(kokoro.model.decoder), inputs, names, calls=1, folder=folder)
    for row in rows:
        outputs = row.climb.outputs if row.climb else None
        audio = outputs["output"].reshape(-1).astype(np.float32) if outputs else None
        made.append(Version(row.backend, audio, "" if outputs else row.outcome))
    return tuple(made)
