"""In which constants and attributes two nodes differ."""

from collections.abc import Iterator

import numpy as np

from kokoro_nb.inspection.compared_program import ComparedNode, ComparedProgram
from kokoro_nb.markup import number
from kokoro_nb.traces.parity import of_peak

CHANGED = 2.0**-9  # of a constant: two roundings to float16


def changed_parameters(
    reference: ComparedProgram, candidate: ComparedProgram
) -> Iterator[tuple[ComparedNode, ComparedNode]]:
    """Yield the nodes that read constants alone, and not quite those of their counterpart, each with that.

    Such as integer weights whose scale is another: what they give has no inputs by which it could be paired. The
    counterpart is of the same operator, and its largest constant is the same. Where there is one whose constants are
    all the same, nothing is changed. Of nodes whose largest constant the other program does not have, and that are
    left over on both sides, those of one operator and shape are counterparts in the order in which they stand.
    """
    there = [one for one in reference.nodes if not one.reads and any(one.constants)]
    here = [one for one in candidate.nodes if not one.reads and any(one.constants)]
    alike: dict[tuple[str, bytes], list[ComparedNode]] = {}
    for other in there:
        alike.setdefault((other.operator, _largest(other).tobytes()), []).append(other)
    left: dict[tuple[str, tuple[int, ...]], list[ComparedNode]] = {}
    own = {(node.operator, _largest(node).tobytes()) for node in here}
    for other in there:
        if (other.operator, _largest(other).tobytes()) not in own:
            left.setdefault((other.operator, _largest(other).shape), []).append(other)
    for node in here:
        others = alike.get((node.operator, _largest(node).tobytes()), [])
        if not others:
            others = left.get((node.operator, _largest(node).shape), [])[:1]
            del left.get((node.operator, _largest(node).shape), [])[:1]
        if others and all(next(differing_constants(one, node), None) is not None for one in others):
            yield node, others[0]


def _largest(node: ComparedNode) -> np.ndarray:
    arrays = [one[1] for one in node.constants if one is not None]
    return sorted(arrays, key=lambda array: array.size)[-1]


def differing_constants(other: ComparedNode, node: ComparedNode) -> Iterator[str]:
    """Say which constants differ, argument by argument."""
    for theirs, ours in zip(other.constants, node.constants, strict=False):
        if theirs is None or ours is None:
            continue
        right, value = theirs[1].astype(np.float64), ours[1].astype(np.float64)
        if right.shape != value.shape:
            yield f"the constant '{ours[0]}' has the shape {value.shape}, there {right.shape}"
            continue
        apart = np.abs(value - right) > CHANGED * np.abs(right)
        if apart.any():
            place = np.unravel_index(int(np.argmax(np.abs(value - right))), right.shape)
            values = f"{number(value[place])} in place of {number(right[place])}"
            yield f"the constant '{ours[0]}' is {values} ({int(apart.sum()):,} of {apart.size:,} values differ)"


def largest_change(other: ComparedNode, node: ComparedNode) -> float:
    """Return by how much a constant differs at most, as a share of its peak; infinite where a shape differs."""
    shares = [0.0]
    for theirs, ours in zip(other.constants, node.constants, strict=False):
        if theirs is None or ours is None:
            continue
        right, value = theirs[1].astype(np.float64), ours[1].astype(np.float64)
        if right.shape != value.shape:
            return float("inf")
        shares.append(of_peak(np.abs(value - right).max(initial=0.0), np.abs(right).max(initial=0.0)))
    return float(np.max(shares))


def foreign_constants(other: ComparedNode, node: ComparedNode) -> Iterator[str]:
    """Say which constants of a node the other one has not in any order, though it has one of that size."""
    theirs = [np.sort(one[1].astype(np.float64), axis=None) for one in other.constants if one is not None]
    for ours in node.constants:
        if ours is None or ours[1].dtype.kind != "f" or ours[1].size == 1:
            continue  # a number may be written as two factors there
        value = np.sort(ours[1].astype(np.float64), axis=None)
        like = [one for one in theirs if one.size == value.size]
        counts = np.array([(np.abs(value - one) > CHANGED * np.abs(one)).sum() for one in like])
        if counts.all() and counts.size:
            one = like[int(np.argmin(counts))]
            place = int(np.argmax(np.abs(value - one)))
            values = f"{number(value[place])} in place of {number(one[place])}, both in the order of size"
            yield f"the constant '{ours[0]}' is {values} ({counts.min():,} of {value.size:,} values differ)"


def differing_attributes(other: ComparedNode, node: ComparedNode) -> Iterator[str]:
    """Say which attributes differ."""
    theirs, ours = other.attributes, node.attributes
    for name in sorted(set(theirs) | set(ours)):
        if theirs.get(name) != ours.get(name):
            yield f"the attribute {name} is {ours.get(name, 'not set')} in place of {theirs.get(name, 'not set')}"
