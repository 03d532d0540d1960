"""Values of two programs compared without holding them, by sketches, and the constants of their nodes."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import permutations

import numpy as np

from kokoro_nb.inspection.compared_constants import LOWERED, Cause, same_weight
from kokoro_nb.inspection.compared_program import ComparedProgram
from kokoro_nb.inspection.semantics.onnx_call import widened
from kokoro_nb.inspection.value_types import Value
from kokoro_nb.markup import number
from kokoro_nb.traces.statistics import of_peak

POINTS = 128  # of the sorted elements, by which a value is known
MASKED, FEWEST = 1e-3, 4  # of the largest: how far numbers of a mask are apart, and those beside it below it; points
IMAGES = 16  # sums with random signs, by which two values in one layout are compared element by element
SHAPES = ("shape", "size")  # operators that read no value
ROUNDED = 1e-6  # off 1, up to which a factor is one
FOLDED = 1e-5  # of a result: what rounding of constants that are folded into others does to it
BIASED = frozenset(("linear", "addmm", "gemm"))  # products that add their bias
BLOCK = 2**14  # elements that have signs of their own; the next ones have these times a sign for each block


@dataclass(frozen=True, eq=False)
class ValueSketch:
    """What a value is known by, for each set of inputs one behind the other.

    Attributes
    ----------
    size : int
        How many elements it has.
    points : numpy.ndarray
        Some of them in the order of size, which any layout leaves as it is.
    images : numpy.ndarray
        Sums of all of them with random signs: in one layout these differ by as much as the elements do, by the root
        mean square (Achlioptas 2003).
    """

    size: int
    points: np.ndarray
    images: np.ndarray

    @classmethod
    def of(cls, value: np.ndarray) -> "ValueSketch":
        """Return what a value is known by on one set of inputs."""
        places = np.linspace(0, value.size - 1, POINTS).round().astype(int)
        return cls(value.size, np.sort(value, axis=None)[places], _images(value))

    @classmethod
    def joined(cls, parts: Sequence["ValueSketch"]) -> "ValueSketch":
        """Return what a value is known by on several sets of inputs."""
        return cls(parts[0].size, *map(np.concatenate, zip(*((one.points, one.images) for one in parts), strict=True)))

    @property
    def first(self) -> "ValueSketch":
        """What the value is known by on the first set of inputs alone."""
        return ValueSketch(self.size, self.points[:POINTS], self.images[:IMAGES])

    def differs(self, other: "ValueSketch") -> float:
        """Return the root mean square of the difference, element by element, over that of `other`; about a fifth off.

        Infinite of another size. Where an element is not finite in both, it is the `distance` of the others.
        """
        if self.size != other.size or self.images.shape != other.images.shape:
            return float("inf")
        noise, level = (float(np.square(one).sum()) for one in (self.images - other.images, other.images))
        return self.distance(other) if np.isnan(noise) else float(np.sqrt(of_peak(noise, level)))

    def distance(self, other: "ValueSketch") -> float:
        """Return the largest difference of these, of the root mean square of `other`; infinite of another size."""
        finite = np.isfinite(other.points)
        if self.size != other.size or not np.array_equal(finite, np.isfinite(self.points)):
            return float("inf")
        apart, right = np.abs(self.points[finite] - other.points[finite]), other.points[finite]
        size = np.abs(right)
        top = size.max(initial=0.0)
        mask = size >= (1 - MASKED) * top
        # a mask is far larger than what is beside it, whose own level counts
        alone = mask.sum() >= FEWEST and not mask.all() and size[~mask].max() < MASKED * top
        return float(np.max([_share(apart[part], right[part]) for part in ((mask, ~mask) if alone else (...,))]))


Sketches = Mapping[str, ValueSketch]


def _share(apart: np.ndarray, right: np.ndarray) -> float:
    return of_peak(float(apart.max(initial=0.0)), float(np.sqrt(np.square(right).mean())) if right.size else 0.0)


def sketches(program: ComparedProgram, inputs: Sequence[Mapping[str, np.ndarray]]) -> dict[str, ValueSketch]:
    """Compute a program in float64 and return what its values are known by, in the order of execution.

    Integers that are made of the inputs' shapes, or of none, are lengths and places, which need not be the same.
    """
    parts: dict[str, list[ValueSketch]] = {}
    computed = {*program.inputs, *program.outputs}
    for node in program.nodes:
        if computed & set(node.reads) and node.operator.lower() not in SHAPES:
            computed |= set(node.outputs)

    def note(name: str, value: Value) -> None:
        if isinstance(value, np.ndarray) and value.dtype.kind in ("fbiu" if name in computed else "fb") and value.size:
            parts.setdefault(name, []).append(ValueSketch.of(value.astype(np.float64, copy=False)))

    for one in inputs:
        for name, value in one.items():
            note(name, widened(value))
        program.compute(one, note)
    return {name: ValueSketch.joined(each) for name, each in parts.items() if len(each) == len(inputs)}


def _images(value: np.ndarray) -> np.ndarray:
    flat = value.reshape(-1)
    blocks, signs = -(-flat.size // BLOCK), _signs(min(flat.size, BLOCK))
    with np.errstate(invalid="ignore"):
        padded = np.pad(flat, (0, blocks * len(signs) - flat.size)).reshape(blocks, len(signs))
        turned = np.random.default_rng(blocks).choice((-1.0, 1.0), (blocks, IMAGES))
        return np.asarray((padded @ signs * turned).sum(axis=0))


@lru_cache(maxsize=64)
def _signs(count: int) -> np.ndarray:
    return np.random.default_rng(count).choice((-1.0, 1.0), (count, IMAGES))


def nearest(values: Sketches, others: Sketches) -> dict[str, tuple[str, float]]:
    """Return for each value the name of the nearest of the others, and how far it is."""
    by_size: dict[int, list[str]] = {}
    for name, one in others.items():
        by_size.setdefault(one.size, []).append(name)
    tables = {size: np.stack([others[name].points for name in names]) for size, names in by_size.items()}
    found = dict.fromkeys(values, ("", float("inf")))
    for name, one in values.items():
        if names := by_size.get(one.size):  # the ten nearest by the plain difference, and of those by the exact one
            with np.errstate(invalid="ignore"):
                apart = np.abs(tables[one.size] - one.points).max(axis=1)
            near = {*np.argsort(apart, kind="stable")[:10].tolist(), *np.flatnonzero(np.isnan(apart)).tolist()}
            pairs = ((names[k], one.distance(others[names[k]])) for k in sorted(near))
            found[name] = sorted(pairs, key=lambda pair: pair[1])[0]
    return found


def scaled(value: ValueSketch, right: ValueSketch, limit: float = 1e-3) -> Iterator[Cause]:
    """Say so if the value is the right one times a number, or plus one, up to a share of the level, or truncated."""
    if (factor := factor_of(value, right, limit)) is not None:
        times = f"exactly {number(factor)} times the reference's" if factor else "0"
        yield "changed scale", f"its result is {times}"
    elif value.size == right.size and right.points.any():
        with np.errstate(invalid="ignore"):
            apart = value.points - right.points
            shift = float(apart.mean())
            same = shift and np.abs(apart - shift).max() <= limit * abs(shift)
        if same:
            yield "changed scale", f"its result is the reference's plus {number(shift)}"
        if np.array_equal(value.points, np.trunc(right.points)) and (right.points % 1).any():
            yield LOWERED, "its result is the reference's, truncated to whole numbers"


def factor_of(value: ValueSketch, right: ValueSketch, limit: float = 1e-3) -> float | None:
    """Return by which number one value is the other; None if by none, or by one so near 1 that it explains nothing."""
    level = float(np.sqrt(np.square(right.points).mean()))
    if value.size != right.size or not level:
        return None
    if not value.points.any():
        return 0.0
    with np.errstate(invalid="ignore"):
        factor = float(value.points @ right.points / (right.points @ right.points))
        room = limit * level * np.minimum(np.abs(factor), np.abs(factor - 1))
        near = np.abs(value.points - factor * right.points).max() < room and abs(factor - 1) > ROUNDED
    return factor if near else None


def channel_fit(value: np.ndarray, right: np.ndarray) -> tuple[np.ndarray, np.ndarray] | None:
    """Return what each channel (axis 1) of `right` is multiplied by, and what is added, to give the value.

    None where that does not give it, or a channel has one element in each item of the batch.
    """
    if value.shape != right.shape or not value.shape[2:] > (1,):
        return None
    given, known = (np.moveaxis(one, 1, 0).reshape(value.shape[1], -1) for one in (value, right))
    off, centred = (one - one.mean(axis=1, keepdims=True) for one in (given, known))
    factors = (centred * off).sum(axis=1) / np.maximum(np.square(centred).sum(axis=1), np.finfo(float).tiny)
    if not np.abs(off - factors[:, None] * centred).max() < FOLDED * np.abs(off).max():
        return None
    return factors, given.mean(axis=1) - factors * known.mean(axis=1)


def is_permuted(value: np.ndarray, other: np.ndarray, limit: float) -> bool:
    """Return whether one value has the elements of the other with its axes permuted, then merged or split.

    To a share of the root mean square of `other`.
    """
    level = float(np.linalg.norm(other))
    if value.size != other.size or not np.abs(np.linalg.norm(value) - level) <= limit * level:
        return False
    pairs = ((value.squeeze(), other.reshape(-1)), (other.squeeze(), value.reshape(-1)))
    apart = (one.transpose(axes).reshape(-1) - flat for one, flat in pairs for axes in permutations(range(one.ndim)))
    return any(np.linalg.norm(each) <= limit * level for each in apart)


def with_bias(
    reference: ComparedProgram, candidate: ComparedProgram, known: Sketches, own: Sketches, limit: float
) -> Iterator[tuple[str, tuple[str, float]]]:
    """Yield the products that are results of the reference once its bias is added, with these and how far they are.

    Other programs add it in the next operator (``Add``, ``BiasGelu``, ``SkipLayerNormalization``). Sums with random
    signs are linear, so that those of the bias can be added to those of the product.
    """
    results = [(one.outputs[0], one) for one in reference.nodes if one.kind in BIASED and one.outputs[0] in known]
    biases = [(name, one, bias.astype(np.float64)) for name, one in results for _, bias in one.held if bias.ndim == 1]
    for node in (one for one in candidate.nodes if one.kind == "matmul" and one.outputs[0] in own):
        value = own[node.outputs[0]]
        for name, other, bias in biases:
            if value.size == known[name].size and same_weight(other, node):
                added = ValueSketch.of(np.tile(bias, value.size // bias.size)).images
                images = value.images + np.tile(added, value.images.size // added.size)
                if (apart := replace(value, images=images).differs(known[name])) <= limit:
                    yield node.outputs[0], (name, apart)
