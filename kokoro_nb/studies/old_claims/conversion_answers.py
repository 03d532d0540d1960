"""Claims about one Core ML graph: classes written anew, and the steps of the pipeline after conversion."""

import numpy as np

from kokoro_nb.models.architecture import FRAMES_PER_SECOND
from kokoro_nb.models.case import Case
from kokoro_nb.models.kokoro import Kokoro
from kokoro_nb.studies.coreml_complete.complete_model import REFERENCE
from kokoro_nb.studies.coreml_complete.replacements import replacements
from kokoro_nb.studies.old_claims.claim import Answer
from kokoro_nb.studies.old_claims.padding_answers import EXACT, FRAMES
from kokoro_nb.studies.validate_steps.validation import follow, walk

STEPS = ("durations", "F0 and N", "trunk", "generator")
VARIANTS = (3, 10, 45)  # seconds


def conversion_answers(kokoro: Kokoro, case: Case) -> tuple[Answer, ...]:
    """Answer E3 and E4."""
    return _classes(kokoro, case), _steps(kokoro, case)


def _classes(kokoro: Kokoro, case: Case) -> Answer:
    found = replacements(kokoro.model, case, 1)
    worst = float(np.max([one.error for one in found]))
    return Answer(
        "E3",
        f"{len(found)} classes and functions, the worst of them {worst:.1g} of the peak off",
        "confirmed" if worst <= EXACT else "refuted",
        "Equal with the replacements of this project, whose STFT is torch's at its edges and in level.",
        {"worst": worst, "classes": len(found)},
    )


def _steps(kokoro: Kokoro, case: Case) -> Answer:
    found = follow(kokoro.model, walk(kokoro.model, case, frames=FRAMES), REFERENCE, only=STEPS)
    errors = {f"{one.step}, {one.output}": one.own.of_peak if one.own else float("nan") for one in found}
    worst, frames = float(np.max([*errors.values()])), [seconds * FRAMES_PER_SECOND for seconds in VARIANTS]
    return Answer(
        "E4",
        f"each on PyTorch's own inputs, {worst:.1g} of the peak off at most: {', '.join(STEPS)}; reference executor; "
        f"{', '.join(map(str, VARIANTS))} s would be {', '.join(map(str, frames))} frames",
        "confirmed" if worst <= EXACT else "refuted",
        "In float32, and step by step; the chain parts where the source's phase is rounding.",
        {"worst": worst, "steps": len({one.step for one in found})},
    )
