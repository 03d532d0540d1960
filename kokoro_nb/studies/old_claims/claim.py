"""A claim of an old note, what it depends on, and what is answered to it."""

from dataclasses import dataclass
from typing import Any, Literal

Dependence = Literal["architecture", "weights", "device", "version"]
ClaimVerdict = Literal["confirmed", "refuted", "another cause", "needs published weights", "needs a device"]


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
