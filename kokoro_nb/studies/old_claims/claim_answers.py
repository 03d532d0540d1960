"""All claims of the old notes with their answers, on the weights in use."""

from dataclasses import dataclass
from typing import Any

from kokoro_nb.errors import InputError
from kokoro_nb.models.case import Case
from kokoro_nb.models.kokoro import BUNDLED, GENERATED, Kokoro
from kokoro_nb.studies.old_claims.architecture_answers import architecture_answers
from kokoro_nb.studies.old_claims.padding_answers import FRAMES, padding_answers
from kokoro_nb.studies.old_claims.reported_claims import CLAIMS, NOTES, Answer, AnsweredClaim
from kokoro_nb.studies.old_claims.runtime_answers import runtime_answers

COUNT = len(CLAIMS)


@dataclass(frozen=True)
class AnsweredClaims:
    """Every claim with its answer, in the order of the notes."""

    claims: tuple[AnsweredClaim, ...]

    def rows(self, note: str) -> list[dict[str, Any]]:
        """Return the rows of a table for the note with this letter."""
        return [one.as_dict() for one in self.claims if one.claim.number.startswith(note)]

    def about(self, note: str) -> str:
        """Return what the note with this letter is about."""
        return NOTES[note]

    def counts(self) -> list[dict[str, Any]]:
        """Return the rows of a table: verdict, how many claims have it, and which."""
        found: dict[str, list[str]] = {}
        for number, verdict in self.verdicts().items():
            found.setdefault(verdict, []).append(number)
        return [{"verdict": v, "claims": len(each), "which": ", ".join(each)} for v, each in found.items()]

    def verdicts(self) -> dict[str, str]:
        """Return the verdict on each claim, by its number."""
        return {one.claim.number: one.answer.verdict for one in self.claims}

    def figure(self, number: str, name: str) -> float:
        """Return one figure of the answer to a claim."""
        return next(one.answer.figures[name] for one in self.claims if one.claim.number == number)


def answer_claims(kokoro: Kokoro, case: Case, seed: int = 0) -> AnsweredClaims:
    """Measure what each claim is about.

    Parameters
    ----------
    kokoro : Kokoro
    case : Case
        An utterance of these weights, of 24 frames at least.
    seed : int

    Raises
    ------
    InputError
        If the utterance is too short.
    """
    if case.frames < FRAMES:
        raise InputError(
            f"The text lasts {case.frames} frames, and the claims are measured on {FRAMES}; give a longer one."
        )
    own = kokoro.weights.name in {*GENERATED, *BUNDLED}
    answers = (*padding_answers(kokoro, case, seed, own), *runtime_answers(seed), *architecture_answers(kokoro, case))
    return AnsweredClaims(joined(answers))


def joined(answers: tuple[Answer, ...]) -> tuple[AnsweredClaim, ...]:
    """Put each answer to its claim.

    Raises
    ------
    InputError
        If a claim has no answer, or more than one.
    """
    numbers = [one.number for one in answers]
    wrong = [claim.number for claim in CLAIMS if numbers.count(claim.number) != 1]
    if wrong:
        raise InputError(f"Claims without one answer each: {', '.join(wrong)}.")
    by_number = {one.number: one for one in answers}
    return tuple(AnsweredClaim(claim, by_number[claim.number]) for claim in CLAIMS)
