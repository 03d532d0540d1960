"""Why a node gives something else than an operator of the reference, by their values: rules, channels, constants."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import product

import numpy as np

from kokoro_nb.inspection.compared_constants import differing
from kokoro_nb.inspection.compared_program import ComparedNode, by_name
from kokoro_nb.inspection.paired_values import CLOSE, PairedValues
from kokoro_nb.locate.culprit import UNKNOWN, Mechanism, Name, likeliest
from kokoro_nb.locate.local_error import wrong_beyond
from kokoro_nb.locate.mechanism_rules import mechanisms
from kokoro_nb.locate.rule_evidence import Evidence, call_of
from kokoro_nb.markup import number

FOLDED = 1e-5  # of a result: what rounding of constants that are folded into others does to it


def explained_by_rules(paired: PairedValues, node: ComparedNode, other: ComparedNode) -> Mechanism | None:
    """Return what the rules for an operator of a module say of a node that stands for one, on the same inputs."""
    meaning, name = paired.reference.meaning, other.outputs[0]
    sized = name in paired.known and node.outputs[0] in paired.own and len(node.outputs) == 1
    if meaning is None or not sized or paired.own[node.outputs[0]].size != paired.known[name].size:
        return None
    values = paired.values_of(paired.reference, {*other.reads, name})
    right, given = values.pop(name), paired.values_of(paired.candidate, node.outputs)[node.outputs[0]]
    if np.squeeze(given).shape != np.squeeze(right).shape:
        return None
    operator = next(one for one in meaning.operators if one.name == name)
    error = wrong_beyond(operator, given.reshape(right.shape), right, paired.alike)
    call = call_of(meaning, name, by_name(paired.reference.inputs, paired.inputs[0], paired.reference.label), values)
    found = likeliest(mechanisms(Evidence(error, {one: values[one] for one in other.reads if one in values}, call)))
    return None if found is UNKNOWN else found


def channel_factors(paired: PairedValues, node: ComparedNode) -> tuple[str, str] | None:
    """Say so if each channel is one of the reference times a number, plus a number, as folded constants make it."""
    size = paired.own[node.outputs[0]].size if node.outputs[0] in paired.own else 0
    near = [one for one in paired.reference.nodes if paired.is_missing(one) and one.outputs[0] in paired.known]
    near = [one for one in near if paired.known[one.outputs[0]].size == size]
    values = paired.values_of(paired.reference, {one.outputs[0] for one in near})
    (given,) = paired.values_of(paired.candidate, node.outputs[:1]).values() if near else (np.zeros(0),)
    found = []
    for one in (each for each in near if values[each.outputs[0]].shape == given.shape and given.shape[2:] > (1,)):
        rows, mine = (np.moveaxis(each, 1, 0).reshape(given.shape[1], -1) for each in (values[one.outputs[0]], given))
        centred, off = (each - each.mean(axis=1, keepdims=True) for each in (rows, mine))
        factors = (centred * off).sum(axis=1) / np.maximum(np.square(centred).sum(axis=1), np.finfo(float).tiny)
        if np.abs(off - factors[:, None] * centred).max() < FOLDED * np.abs(off).max():
            added = mine.mean(axis=1) - factors * rows.mean(axis=1)
            found.append((float(np.abs(factors - 1).max()), one, factors, added))
    for far, one, factors, added in sorted(found, key=lambda each: each[0])[:1]:
        times = "" if far <= CLOSE else f" times a number ({number(factors.min())} to {number(factors.max())})"
        words = f"each channel of its result is that of {one.key} ({one.operator}){times}, plus a number"
        if np.ptp(factors) > CLOSE or (far <= CLOSE and np.abs(added).max() > CLOSE * np.abs(given).max()):
            return one.key, f"{words} ({number(added.min())} to {number(added.max())})"
    return None


def constants_in_place(paired: PairedValues, node: ComparedNode, other: ComparedNode) -> Iterator[tuple[Name, str]]:
    """Say which constant of a node is another than what its counterpart reads, whatever the inputs are."""
    names = [one for one in other.reads if one in paired.known and paired.is_fixed(one)]
    values = paired.values_of(paired.reference, names)
    here, there = (replace(one, operator="", attributes={}, reads=()) for one in (node, other))
    for name, held in product(names, filter(None, node.constants)):
        if held[1].size == values[name].size:
            read = replace(there, constants=((name, values[name].reshape(held[1].shape)),))
            yield from differing(read, replace(here, constants=(held,)))
    for mine, theirs in zip(node.constants, other.constants, strict=False):
        if node.operator == other.operator and mine is not None and theirs is None:
            yield "changed constant", f"the constant '{mine[0]}' stands where a value is read there"
