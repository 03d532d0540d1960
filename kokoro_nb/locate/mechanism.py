"""The mechanism of a fault: what happened in an operator, in plain terms, with the evidence, and the known defect."""

from dataclasses import dataclass
from typing import Any, Literal, get_args

from kokoro_nb.errors import InputError

Name = Literal[
    "one-pass variance",
    "overflow of the dtype",
    "too few bits",
    "accumulated phase",
    "padding leaking through statistics",
    "wrong at an edge",
    "stale memory",
    "changed constant",
    "changed layout or shift",
    "changed scale",
    "operator lowered as another",
    "branch cut of atan2",
    "division by zero",
    "quantisation range",
    "baked-in random numbers",
    "frozen length",
    "another shape or dtype",
    "lost state",
    "not supported",
    "operators joined",
    "unknown",
]
NAMES: tuple[Name, ...] = get_args(Name)


@dataclass(frozen=True)
class Mechanism:
    """What happened in an operator, as far as the evidence goes.

    Attributes
    ----------
    name : str
        One of `NAMES`.
    statement : str
        What happened here, in a few words.
    evidence : tuple of str
        Observations that speak for it.
    defect : str or None
        Name of the known defect (`kokoro_nb.defects`), where operator and tool are those of the defect.
    threads : tuple of str
        Public threads about it, ``owner/repository#number``.
    against : tuple of str
        Observations that speak against it.
    explained : float
        Share of the operator's own error that is gone where what the statement says is computed, 0 to 1; NaN where it
        cannot be computed.
    """

    name: Name
    statement: str
    evidence: tuple[str, ...] = ()
    defect: str | None = None
    threads: tuple[str, ...] = ()
    against: tuple[str, ...] = ()
    explained: float = float("nan")

    def __post_init__(self) -> None:
        if self.name not in NAMES:
            raise InputError(f"'{self.name}' is no mechanism; use one of {', '.join(NAMES)}.")

    def __str__(self) -> str:
        return f"{self.statement} ({'; '.join(self.evidence)})" if self.evidence else self.statement

    def as_dict(self) -> dict[str, Any]:
        """Return it as plain values, as of a table or JSON."""
        return {
            "name": self.name,
            "statement": self.statement,
            "evidence": list(self.evidence),
            "against": list(self.against),
            "explained (of the operator's error)": self.explained,
            "known defect": self.defect,
            "threads": list(self.threads),
        }


UNKNOWN = Mechanism("unknown", "no known mechanism explains it")


def likeliest(mechanisms: tuple[Mechanism, ...]) -> Mechanism:
    """Return the first of those that are ordered by evidence which explains most of the error, or `UNKNOWN`."""
    return next((one for one in mechanisms if not one.explained < 0.5), UNKNOWN)
