"""Rules for what reads where indices point: before the tensor, or at all pairs of several indices."""

from typing import Any

import numpy as np

from kokoro_nb.locate.forms.form import is_mask
from kokoro_nb.locate.forms.indexing import from_the_start, places
from kokoro_nb.locate.mechanism import Mechanism
from kokoro_nb.locate.rule_evidence import Evidence, explained_throughout

BEFORE = "an index counted from the end read before the tensor"
PAIRS = "all pairs of the indices"


def before_the_start(evidence: Evidence) -> Mechanism | None:
    """What is wrong is what a negative index points at; where that lies in the tensor all the same, it was given."""
    x, indices = _indexed(evidence)
    error = evidence.error
    if x is None or not error.wrong.any():
        return None
    read, back = (np.asarray(places(x.shape, one)) for one in (indices, from_the_start(x.shape, indices)))
    if read.shape != error.wrong.shape or (error.wrong & (read == back)).any():
        return None
    count = int((read != back).sum())
    text = f"{int(error.wrong.sum())} of the {count} elements that a negative index points at are wrong, and no other"
    inside = (read >= 0) & (read != back)
    there = np.asarray(x, np.float64).ravel()[np.where(inside, read, 0)]
    alike = np.isclose(np.asarray(error.given, np.float64), there, rtol=1e-6, atol=0, equal_nan=True) & inside
    if inside.any() and not alike[inside].all():
        return None
    found = f"{int(inside.sum())} of them are what stands as many places before the tensor's own rows"
    return Mechanism("operator lowered as another", BEFORE, (text, *([found] if inside.any() else ())), explained=1.0)


def all_pairs(evidence: Evidence) -> Mechanism | None:
    """What was given is what each index picks of what the one behind it picked."""
    x, indices = _indexed(evidence)
    if x is None or len(indices) < 2:
        return None
    taken = x
    for axis in sorted(indices, reverse=True):
        taken = np.take(taken, indices[axis].reshape(-1), axis)
    shapes = f"{evidence.error.given.shape} in place of {evidence.error.right.shape}"
    return explained_throughout(PAIRS, evidence, taken, f"what {PAIRS} pick, {shapes}")


def _indexed(evidence: Evidence) -> tuple[np.ndarray | None, dict[int, Any]]:
    """Return the tensor and axis -> whole numbers that index it; None where the operator is none that indexes."""
    import torch

    given: Any = evidence.arguments
    x = given.get("self")
    if evidence.kind not in ("select", "index") or x is None:
        return None, {}
    if evidence.kind == "select":
        return x, {given["dim"] % x.ndim: torch.tensor(given["index"])}
    indices = {axis: torch.tensor(one) for axis, one in enumerate(given["indices"]) if one is not None}
    return (None, {}) if any(map(is_mask, indices.values())) else (x, indices)
