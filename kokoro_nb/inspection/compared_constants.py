"""Constants and attributes of the nodes of two programs compared, folded and rounded ones among them."""

from collections.abc import Iterator, Sequence
from itertools import product, zip_longest
from typing import Any

import numpy as np

from kokoro_nb.inspection.compared_program import ComparedNode, ComparedProgram
from kokoro_nb.inspection.semantics.quantised import LONGEST, NONE, ON_INTEGERS, linear, scales_spread
from kokoro_nb.locate.culprit import Name
from kokoro_nb.markup import number
from kokoro_nb.traces.statistics import relative_difference

CHANGED = 2.0**-9  # of a constant: two roundings to float16
UNCHANGED = 2.0**-20  # the same of float32
WIDE = frozenset(("float32", "float64", "int32", "int64", "bool"))
ROUNDED = 1 / 14  # of its peak: what rounding to 4 bits does to it
LARGE = 8  # elements of a constant that is no number
STEPS, ALIKE = 0.6, 0.7  # median of the steps off (rounding: 0.25); correlation of constants that stand for each other
EDITED = 0.25  # share of the numbers of a constant that are not 0
CHANNEL = 4  # elements of a channel from which it is told from others by their ratios
ENDLESS = 1e38  # of a number of float32
Cause = tuple[Name, str]  # the name of what happened, and what it is here in words
LOWERED: Name = "operator lowered as another"
Counterparts = tuple[ComparedNode, ComparedNode]  # of the candidate and of the reference
WEIGHTS = {"DequantizeLinear": (0, 1, 2)}
WEIGHTS |= {key: one[2] for key, one in ON_INTEGERS.items() if one[0] == "MatMul"}
"""Places of the weights among the inputs of a node, of their scale and of their zero point."""
FOLDED = 2.0**-8  # of a channel's norm: what rounding to float16 does to it is below it


@np.errstate(over="ignore")  # of numbers next to 0
def same_constants(reference: ComparedProgram, candidate: ComparedProgram) -> bool:
    """Return whether no constant of `candidate` is of few bits, or one of the reference rounded to few.

    One that is folded has its like nowhere.
    """
    own, theirs = ([one for node in program.nodes for _, one in node.held] for program in (candidate, reference))
    known = [(array.size, _measures(array)) for array in theirs]
    large = (array for array in own if array.size >= LARGE)
    apart = ([np.abs(_measures(array) / one - 1).max() for size, one in known if size == array.size] for array in large)
    rounded = (UNCHANGED < np.min(one, initial=np.inf) <= ROUNDED for one in apart)
    return all(array.dtype.name in WIDE for array in own) and not any(rounded)


@np.errstate(over="ignore", invalid="ignore")
def exact_in_halves(program: ComparedProgram) -> list[str]:
    """Return the names of constants of float32, neither few numbers nor whole ones, that a type of 16 bits holds."""
    held = [one for node in program.nodes for one in node.held if one[1].dtype == np.float32]
    floats = ((name, np.ascontiguousarray(one), one.astype(np.float16)) for name, one in held)
    exact = (pair[:2] for pair in floats if not (pair[1].view(np.uint32) % 2**16).any() or (pair[2] == pair[1]).all())
    return [name for name, one in exact if (one % 1).any() and np.unique(one).size > LARGE]


def _measures(array: np.ndarray) -> np.ndarray:
    """Return the ends and the norm of a constant, none of them 0."""
    found = np.array([array.min(initial=0), array.max(initial=0), np.linalg.norm(array.astype(np.float64))])
    return np.where(found == 0, np.finfo(np.float64).tiny, found)


def changed_parameters(reference: ComparedProgram, candidate: ComparedProgram) -> Iterator[Counterparts]:
    """Yield the nodes that read constants alone, and not quite those of their counterpart, each with that.

    Such as integer weights whose scale is another: what they give has no inputs by which it could be paired. The
    counterpart is of the same operator, and its largest constant is the same. Where there is one whose constants are
    all the same, nothing is changed. Of nodes whose largest constant the other program does not have, and that are
    left over on both sides, those of one operator and shape are counterparts in the order in which they stand.
    """
    alike: dict[tuple[str, bytes], list[ComparedNode]] = {}
    left: dict[tuple[str, tuple[int, ...]], list[ComparedNode]] = {}
    fixed = ([one for one in program.nodes if one.held and not one.reads] for program in (reference, candidate))
    there, here = ([(one, _largest(one)) for one in nodes] for nodes in fixed)
    own = {(node.operator, array.tobytes()) for node, array in here}
    for other, array in there:
        alike.setdefault((other.operator, array.tobytes()), []).append(other)
        if (other.operator, array.tobytes()) not in own:
            left.setdefault((other.operator, array.shape), []).append(other)
    for node, array in here:
        others = alike.get((node.operator, array.tobytes()), [])
        if not others and left.get((node.operator, array.shape)):
            others = [left[node.operator, array.shape].pop(0)]
        if others and all(next(differing(one, node), None) is not None for one in others):
            yield node, others[0]


@np.errstate(invalid="ignore", divide="ignore")  # of a column that is the same throughout
def misquantised_weights(reference: ComparedProgram, candidate: ComparedProgram) -> Iterator[tuple[Counterparts, str]]:
    """Yield the nodes whose weights are integers of 8 bits, and no weights of the reference; with its node, and how.

    Rounding puts an element off by half a step at most; half of the elements tell it from the few that are cut off. Of
    a product whose scale is at another node, the step of each column is that of the deviation of its elements.
    """
    held = ((one, *each) for one in reference.nodes for each in one.held)
    weights = [(one, name, right) for one, name, array in held for right in (array, array.T)[: array.ndim]]
    for node in candidate.nodes:
        arrays = [one and one[1] for one in (*node.constants, *[None] * LONGEST)]
        integers, scale, zero = (arrays[place] for place in WEIGHTS.get(node.operator, NONE))
        if integers is None or integers.dtype.name not in ("int8", "uint8"):
            continue
        axis, block = (node.attributes.get(name, default) for name, default in (("axis", 1), ("block_size", 0)))
        whole = linear(integers, None, zero, axis, block)
        close: list[tuple[float, str, ComparedNode]] = []
        for other, name, right in weights:
            if right.shape != whole.shape or whole.size < LARGE or right.dtype.kind != "f":
                continue
            found = right.std(axis=0) / np.maximum(whole.std(axis=0), 1) if scale is None else scale
            steps = scales_spread(found.astype(np.float64), whole.shape, axis, block)
            if np.mean(np.sum(_rows(whole * steps) * _rows(right), axis=1)) >= ALIKE:
                apart = np.where(steps, np.abs(whole * steps - right) / steps, 0.0)
                close.append((float(np.median(apart)), name, other))
        closest = sorted(close, key=lambda one: one[0])[:1]
        for off, name, other in (one for one in closest if one[0] > STEPS):
            words = f"half of its values are {number(off)} steps or more off '{name}' (rounding: half a step)"
            yield (node, other), words


def _rows(array: np.ndarray) -> np.ndarray:
    """Return the channels of a weight along its first axis, each of norm 1; of a small one all as one."""
    rows = array.astype(np.float64).reshape(len(array) if array.size >= CHANNEL * len(array) else 1, -1)
    return rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), np.finfo(np.float64).tiny)


def _largest(node: ComparedNode) -> np.ndarray:
    return sorted([np.zeros(0), *(one for _, one in node.held)], key=lambda array: array.size)[-1]


def same_weight(other: ComparedNode, node: ComparedNode) -> bool:
    """Return whether the largest constant of a node is the other's, in any order."""
    theirs, mine = _largest(other), _largest(node)
    return mine.size >= LARGE and is_moved(mine, theirs)


def _both(other: ComparedNode, node: ComparedNode) -> Iterator[tuple[str, np.ndarray, str, np.ndarray]]:
    """Yield name and values of each constant of the one and of the other, argument by argument, in float64."""
    for theirs, ours in zip(other.constants, node.constants, strict=False):
        if theirs is not None and ours is not None:
            yield theirs[0], theirs[1].astype(np.float64), ours[0], ours[1].astype(np.float64)


def _lacking(other: ComparedNode, node: ComparedNode) -> list[str]:
    """Return the constants of the one that the other, of the same operator and with as many inputs, has not."""
    pairs = zip_longest(other.constants, node.constants)
    same = other.operator == node.operator and len(other.reads) == len(node.reads)
    return [theirs[0] for theirs, ours in pairs if theirs is not None and ours is None] if same else []


TERMS = {"strides": "stride", "dilations": "dilation", "group": "groups", "pads": "padding", "epsilon": "eps"}
TERMS |= {"edge": "replicate", "wrap": "circular"}
"""What ONNX calls attributes, and values of them, that PyTorch has by another name."""


def differing(other: ComparedNode, node: ComparedNode) -> Iterator[Cause]:
    """Say which constants differ, argument by argument, and then which attributes, with what each is a case of.

    Of operators of two formats those attributes that both have, set or by default.
    """
    same = other.operator == node.operator
    for there, right, here, value in _both(other, node) if same else ():
        if right.shape != value.shape:
            yield "changed constant", f"the constant '{here}' has the shape {value.shape}, there {right.shape}"
        else:
            yield from changed(there, right, here, value)
    yield from (("changed constant", f"it has no constant like '{name}' there") for name in _lacking(other, node))
    theirs, ours = ({TERMS.get(name, name): one for name, one in of.attributes.items()} for of in (other, node))
    shared = set(theirs) & {*ours, *node.defaults} - {"momentum"}  # which ONNX counts from 1
    for name in sorted(set(theirs) | set(ours) if same else shared):
        both = [of.get(name, one.defaults.get(name, "not set")) for of, one in ((ours, node), (theirs, other))]
        if _listed(both[0]) != _listed(both[1]):
            said = " in place of ".join(f"{one:.6g}" if isinstance(one, float) else str(one) for one in both)
            yield LOWERED, f"the attribute {name} is {said}"


def changed(there: str, right: np.ndarray, here: str, value: np.ndarray, how: str = "") -> Iterator[Cause]:
    """Say what differs between two constants of one shape, if more than rounding does."""
    count = int(_is_changed(value, right).sum())
    if count and is_moved(value, right):
        yield "changed layout or shift", f"the constant '{here}' has its values in another order"
    elif count:
        place = int(np.argmax(np.abs(value - right)))
        said = instead(there, float(right.flat[place]), here, float(value.flat[place]))
        yield "changed constant", f"{said}{how} ({count:,} of {value.size:,} values differ)"


def instead(there: str, right: float, here: str, value: float) -> str:
    """Say that a constant, or an element of it, has a value in place of that of its counterpart."""
    called = "" if there == here else f" of '{there}'"
    return f"the constant '{here}' is {number(value)} in place of {number(right)}{called}"


def _listed(value: Any) -> list[Any]:
    """Return an attribute as a list in PyTorch's terms, of one element where all are the same."""
    each = (TERMS.get(one, one) for one in np.asarray(value, dtype=object).reshape(-1))
    rounded = [float(f"{one:.6g}") if isinstance(one, float) else one for one in each]
    return rounded[:1] if len(set(map(str, rounded))) == 1 else rounded


Numbers = tuple[str, float, str, float]  # name and value there, and here


def other_number(other: ComparedNode, node: ComparedNode, factor: float = 0.0) -> Iterator[Numbers]:
    """Yield name and value of the one number that each of two nodes has, whatever their formats, if it is another.

    Given the factor between their results, yield all those numbers whose quotient it is.
    """
    theirs, mine = _numbers(other), _numbers(node)
    for (there, right), (here, value) in product(theirs, mine):
        quotients = (value / right, right / value) if factor and right and value else ()
        alone = not factor and len(theirs) == len(mine) == 1
        explained = any(abs(factor * one - 1) <= CHANGED for one in quotients)
        if explained or (alone and abs(abs(value) - abs(right)) > CHANGED * abs(right)):  # x - y is x + (-y), too
            yield there, right, here, value


def _numbers(node: ComparedNode) -> list[tuple[str, float]]:
    """Return name and value of each constant of one number. One at the end of its range bounds nothing."""
    numbers = [(name, float(array.reshape(()))) for name, array in node.held if array.size == 1]
    return [one for one in numbers if abs(one[1]) < ENDLESS]


def _is_edited(value: np.ndarray, right: np.ndarray) -> bool:
    """Return whether few numbers of a constant of many are others."""
    another = value.shape == right.shape and value.size >= LARGE and bool(_is_changed(value, right).any())
    return another and bool(np.mean((value != right)[right != 0]) < EDITED)


def largest_change(other: ComparedNode, node: ComparedNode) -> float:
    """Return by how much a constant differs at most, as a share of its peak.

    Infinite where a shape differs, or where most of many numbers are the same to the bit: rounding leaves none.
    """
    both = [(value, right) for _, right, _, value in _both(other, node)]
    shares = [np.inf if _is_edited(*pair) else relative_difference(*pair) for pair in both]
    return float(np.max(shares, initial=np.inf if _lacking(other, node) else 0.0))


def foreign_constants(
    other: ComparedNode, node: ComparedNode, region: Sequence[ComparedNode], there: Sequence[ComparedNode]
) -> Iterator[Cause]:
    """Say which constants of a node the nodes of the reference, `there`, do not have in any order.

    They stand for one of that size of the other node, which nothing else of the region has: that was only moved. Where
    a norm was folded into a constant, neither it nor one beside it is comparable.
    """
    near = [one for each in region for _, one in each.held if each is not node]
    known = [one for each in there for _, one in each.held]
    theirs = [(name, one) for name, one in other.held if not any(is_moved(each, one) for each in near)]
    mine = [(name, one) for name, one in node.held if one.dtype.kind == "f" and one.size > 1]  # one may be two factors
    mine = [(name, one) for name, one in mine if not any(is_moved(one, each) for each in known)]
    if any(is_folded(ours, one) and not _is_multiple(ours, one) for _, ours in mine for _, one in other.held):
        return
    for ours in mine:
        sized = [(name, one) for name, one in theirs if one.size == ours[1].size]
        like = [(name, _sorted(one), _sorted(ours[1]), ", both sorted by size") for name, one in sized]
        like += [(name, one.ravel(), ours[1].ravel(), "") for name, one in sized if one.shape == ours[1].shape]
        for name, one, value, how in sorted(like, key=lambda each: int(_is_changed(each[2], each[1]).sum()))[:1]:
            yield from changed(name, one, ours[0], value, how)


def _is_multiple(array: np.ndarray, other: np.ndarray) -> bool:
    """Return whether an array has the elements of another times one number, in any order."""
    mine, theirs = _sorted(np.abs(array)), _sorted(np.abs(other))
    return bool(np.allclose(mine * np.linalg.norm(theirs), theirs * np.linalg.norm(mine), rtol=CHANGED, atol=0))


def is_folded(tensor: np.ndarray, weight: np.ndarray) -> bool:
    """Return whether each channel of a tensor is a multiple of one of the weight, whatever the order within it.

    It is where a norm was folded into the weight.
    """
    axes = product(range(weight.ndim), range(tensor.ndim)) if tensor.size == weight.size else ()
    alike = ((one, two) for one, two in axes if weight.size // CHANNEL >= weight.shape[one] == tensor.shape[two])
    pairs = ((_channels(tensor, two), _channels(weight, one)) for one, two in alike)
    return any(np.allclose(*pair, rtol=FOLDED, atol=FOLDED / 16) for pair in pairs)


def _channels(array: np.ndarray, axis: int) -> np.ndarray:
    """Return the sizes of the elements of each channel in order, of norm 1."""
    return _rows(np.sort(np.abs(np.moveaxis(array, axis, 0).reshape(array.shape[axis], -1)), axis=1))


def _sorted(array: np.ndarray) -> np.ndarray:
    return np.sort(array.astype(np.float64), axis=None)


def _is_changed(value: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Return which values differ by more than rounding of a constant."""
    return np.abs(value - right) > CHANGED * np.abs(right)


def is_moved(value: np.ndarray, right: np.ndarray) -> bool:
    """Return whether the values of a constant are those of another in any order."""
    ends = [np.asarray(one.max(initial=0), np.float64) for one in (value, right)]  # sooner than all
    return value.size == right.size and not _is_changed(*ends) and not _is_changed(_sorted(value), _sorted(right)).any()
