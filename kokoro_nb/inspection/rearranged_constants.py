"""What an operator of a module gives with its constants rearranged, or others or other numbers in their place."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import chain, combinations, islice, permutations, product
from operator import getitem
from typing import Any

import numpy as np

from kokoro_nb.backends.called_operators import arguments_by_name
from kokoro_nb.inspection.compared_constants import is_moved
from kokoro_nb.inspection.compared_program import ComparedNode
from kokoro_nb.inspection.compared_values import is_permuted
from kokoro_nb.inspection.paired_values import PairedValues
from kokoro_nb.locate.rule_evidence import call_of
from kokoro_nb.markup import listed

BLOCKS = (2, 3, 4)  # the halves of a gated layer, the gates of recurrent ones, and heads
LARGEST = 2**26  # elements of all results that are computed of one operator
TRIED = 4  # operators of the module
Tensors = Mapping[str, Any]


def rearranged(
    paired: PairedValues, node: ComparedNode, others: Sequence[ComparedNode], *, numbers: bool = False
) -> Iterator[tuple[str, str]]:
    """Yield the operators of a module that give, with constants rearranged, what a node or one after it gives.

    They are among those whose result the file lacks, `others` first; with each how its constants are, in words. A
    constant may be that of another operator. With `numbers` whole numbers of the node stand in place of theirs.
    """
    import torch

    meaning, given, most = paired.reference.meaning, paired.reference.given(paired.inputs[0]), 1 if numbers else TRIED
    if meaning is None:
        return
    lacking = [one for one in dict.fromkeys([*others, *paired.reference.nodes]) if paired.is_missing(one)][:most]
    known = paired.values_of(paired.reference, {name for one in lacking for name in (*one.reads, *one.outputs)})
    region = paired.region(node)
    own = paired.values_of(paired.candidate, {one.outputs[0] for one in region} & {*paired.own}).values()
    for name, reads, held in ((one.outputs[0], one.reads, dict(one.held)) for one in lacking):
        held |= {one: known[one] for one in reads if one in paired.known and paired.is_fixed(one)}
        floats = {key: torch.tensor(one).double() for key, one in held.items() if one.dtype.kind == "f" and one.ndim}
        rearranging = chain(_rearrangements(floats), _exchanged(floats, region, paired.reference.nodes))
        tried = _renumbered(call_of(meaning, name, given, known), node) if numbers else rearranging
        wrong = [one for one in own if not is_permuted(one, known[name], paired.alike)]
        for words, instead in islice(tried, LARGEST // paired.known[name].size):
            with suppress(IndexError, RuntimeError, TypeError, ValueError):  # the operator takes no such tensors
                value = np.asarray(meaning.recompute(name, given, known, substitute=_called_with(floats, instead)))
                if any(is_permuted(one, value, paired.alike) for one in wrong):
                    yield name, f"it gives what {name} there gives with {words}"


def _called_with(own: Tensors, instead: Tensors) -> Any:
    """Return what calls an operator with other tensors or numbers, as `Meaning.recompute` takes it."""
    from torch.fx.node import map_aggregate

    def exchanged(one: Any) -> Any:
        return next((other for name, other in instead.items() if name in own and np.array_equal(one, own[name])), one)

    def call(target: Any, args: Any, kwargs: Any, result: Any) -> Any:
        given = map_aggregate(arguments_by_name(target, args, kwargs), exchanged)
        return result if target is getitem else target(**given | {key: instead[key] for key in given.keys() & instead})

    return call


def _exchanged(own: Tensors, *nodes: Sequence[ComparedNode]) -> Iterator[tuple[str, Tensors]]:
    """Yield constants of the file that are some of the module in any order, in place of an operator's own."""
    import torch

    held = ([each for one in several for each in one.held] for several in nodes)
    for (name, one), (_, value), (key, right) in product(own.items(), *held):
        if value.size == one.numel() and value.dtype.kind == "f" and is_moved(value, right):
            words = f"{name} in another order" if key == name else f"{key} in place of {name}"
            yield from ((words, {name: torch.tensor(each.reshape(one.shape)).double()}) for each in (value, value.T))


def _renumbered(call: Mapping[str, Any], node: ComparedNode) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield one or two whole numbers of a node in place of those that an operator is called with."""
    held = [np.asarray(one) for one in (*dict(node.held).values(), *node.attributes.values())]
    ours = {int(one) for each in held if each.dtype.kind in "iu" for one in each.flat[:TRIED]}
    own = {name: one for name, one in call.items() if isinstance(one, int) or (isinstance(one, list) and len(one) == 1)}
    others = [(name, one if isinstance(own[name], int) else [one]) for name, one in product(own, sorted(ours))]
    for chosen in chain(combinations(others, 1), combinations(others, 2)):
        yield listed([f"{name} {one} in place of {own[name]}" for name, one in chosen]), dict(chosen)


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
