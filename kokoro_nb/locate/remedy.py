"""What cures an export, applied and measured."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from kokoro_nb.findings import Verdict

RemedyKind = Literal["patch", "setting", "float32 operators", "other form"]


@dataclass(frozen=True)
class Remedy:
    """One change to a program or its export, and what it does to the output.

    Attributes
    ----------
    kind : str
        ``patch`` (a named patch of the package), ``setting`` (of the export), ``float32 operators`` (which are kept in
        float32) or ``other form`` (the operator written as others that compute the same).
    name : str
        Of the patch, setting or form.
    statement : str
        What is changed, in one sentence.
    error_before, error_after : float
        Largest error of the output on the runtime, of its peak; NaN where it is not finite or did not export.
    verdict : str
        ``pass``: the output is within its limit afterwards; ``fail``: it is not; ``unknown``: it could not be measured.
    reason : str
        Why it is ``unknown``, or what is still wrong.
    outputs : dict of numpy.ndarray or None
        What the runtime gives with it, each output by its name; None where it gave nothing.
    """

    kind: RemedyKind
    name: str
    statement: str
    error_before: float
    error_after: float
    verdict: Verdict
    reason: str = ""
    outputs: Mapping[str, np.ndarray] | None = field(default=None, repr=False, compare=False)

    def __str__(self) -> str:
        figures = f"error of the output {self.error_before:.3g} of the peak before, {self.error_after:.3g} after"
        return f"{self.statement} {self.verdict}: {figures}" + (f"; {self.reason}" if self.reason else "")

    def as_dict(self) -> dict[str, Any]:
        """Return the row of a table, with units in its keys."""
        return {
            "remedy": self.name,
            "kind": self.kind,
            "what is changed": self.statement,
            "output before (of peak)": self.error_before,
            "output after (of peak)": self.error_after,
            "verdict": self.verdict,
            "note": self.reason,
        }
