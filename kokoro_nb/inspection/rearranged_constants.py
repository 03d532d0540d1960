"""What an operator of a module gives with its constants rearranged: negated, transposed, exchanged, in other blocks."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import combinations, islice, permutations, product
from operator import getitem
from typing import Any

import numpy as np

from kokoro_nb.inspection.compared_program import ComparedNode
from kokoro_nb.inspection.compared_values import is_permuted
from kokoro_nb.inspection.paired_values import PairedValues
from kokoro_nb.markup import listed

BLOCKS = (2, 3, 4)  # the halves of a gated layer, the gates of recurrent ones, and heads
LARGEST = 2**26  # elements of all results that are computed of one operator
TRIED = 4  # operators of the module
Tensors = Mapping[str, Any]


def rearranged(paired: PairedValues, node: ComparedNode, others: Sequence[ComparedNode]) -> Iterator[tuple[str, str]]:
    """Yield the operators of a module that give, with constants rearranged, what a node or one after it gives.

    They are among those whose result the file lacks, `others` first; with each how its constants are, in words.
    """
    import torch

    meaning, given = paired.reference.meaning, paired.reference.given(paired.inputs[0])
    if meaning is None:
        return
    lacking = [one for one in dict.fromkeys([*others, *paired.reference.nodes]) if paired.is_missing(one)][:TRIED]
    known = paired.values_of(paired.reference, {name for one in lacking for name in one.reads})
    names = {one.outputs[0] for one in paired.region(node)} & {*paired.own}
    own = paired.values_of(paired.candidate, names).values()
    for name, held in ((one.outputs[0], dict(one.held)) for one in lacking):
        fixed = [one for one in paired.reference.makers[name].reads if one in paired.known and paired.is_fixed(one)]
        held |= {one: known[one] for one in fixed}
        floats = {key: torch.tensor(one).double() for key, one in held.items() if one.dtype.kind == "f" and one.ndim}
        for words, instead in islice(_rearrangements(floats), LARGEST // paired.known[name].size):
            with suppress(IndexError, RuntimeError, TypeError, ValueError):  # the operator takes no such tensors
                value = np.asarray(meaning.recompute(name, given, known, substitute=_called_with(floats, instead)))
                if any(one.size == value.size and is_permuted(one, value, paired.alike) for one in own):
                    yield name, words


def _called_with(own: Tensors, instead: Tensors) -> Any:
    """Return what calls an operator with other tensors in place of its own, as `Meaning.recompute` takes it."""
    from torch.fx.node import map_aggregate

    def exchanged(one: Any) -> Any:
        return next((other for name, other in instead.items() if np.array_equal(one, own[name])), one)

    def call(target: Any, args: Any, kwargs: Any, result: Any) -> Any:
        given = map_aggregate((args, kwargs), exchanged)
        return result if target is getitem else target(*given[0], **given[1])

    return call


def _rearrangements(own: Tensors) -> Iterator[tuple[str, Tensors]]:
    """Yield tensors in place of an operator's constants, and before them how they are made of these, in words."""
    import torch

    for name, one in own.items():
        yield f"{name} negated", {name: -one}
        if one.ndim > 1:
            yield f"{name} transposed", {name: one.transpose(0, 1).reshape(one.shape)}
    for name, other in combinations(own, 2):
        if own[name].shape == own[other].shape:
            yield f"{name} and {other} exchanged", {name: own[other], other: own[name]}
    for axis, count in product((0, -1), BLOCKS):
        parts = {name: one.chunk(count, axis) for name, one in own.items() if one.shape[axis] % count == 0}
        groups = [*((name,) for name in parts), (*parts,), tuple(name for name in parts if own[name].ndim > 1)]
        for names in filter(None, dict.fromkeys(groups)):
            for order in islice(permutations(range(count)), 1, None):
                words = f"{listed(names)} as {count} blocks of axis {axis} in the order {', '.join(map(str, order))}"
                yield words, {name: torch.cat([parts[name][k] for k in order], axis) for name in names}
