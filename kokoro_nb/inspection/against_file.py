"""Two programs on the same inputs: values are paired by what they are, and the first node that parts is named.

Both are computed in float64 by their own definitions, so that no runtime is in between. Names do not count, nor does
the order of the elements: a value is known by its size and by what its elements are, sorted. Programs that are written
in other operators (a linear layer as a product and a sum) part and come together again; where they do, nothing is
wrong. They do not where an output is another one, or where something forgets what was different: a clip, a condition.
"""

import re
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from kokoro_nb.errors import InputError
from kokoro_nb.inspection.blame import InspectionFinding
from kokoro_nb.inspection.compared_program import (
    ComparedNode,
    ComparedProgram,
    changed_parameters,
    differing,
    foreign_constants,
    same_constants,
)
from kokoro_nb.inspection.paired_values import APART, EXACT, OTHER, REPLACED, SAME, PairedValues, plain_name
from kokoro_nb.inspection.value_sketch import factor_of, nearest, scaled, sketches
from kokoro_nb.inspection.value_types import Arrays
from kokoro_nb.locate.culprit import Mechanism, Name
from kokoro_nb.markup import number

WORDS: dict[Name, str] = {
    "changed constant": "the file has another constant",
    "operator lowered as another": "the file computes something else",
    "changed scale": "the file has a factor or an offset more",
    "changed layout or shift": "the file has the elements in another order",
    "too few bits": "a difference of its input that rounding may make, and that it makes large",
}


def same_inputs(reference: ComparedProgram, candidate: ComparedProgram, inputs: Arrays) -> dict[str, np.ndarray]:
    """Return inputs of `candidate` under the names of `reference`: by name if it has the same, else in order.

    Raises
    ------
    InputError
        If the two do not take the same number of inputs.
    """
    if set(reference.inputs) == set(inputs):
        return {name: inputs[name] for name in reference.inputs}
    if len(reference.inputs) != len(inputs):
        raise InputError(
            f"{reference.label} takes {len(reference.inputs)} inputs, {candidate.label} {len(inputs)}; they cannot be "
            "compared."
        )
    return dict(zip(reference.inputs, inputs.values(), strict=True))


def first_that_parts(
    reference: ComparedProgram, candidate: ComparedProgram, inputs: Sequence[Arrays]
) -> tuple[InspectionFinding | None, str]:
    """Name the first node of `candidate` whose result the reference does not have although it has what went into it.

    Parameters
    ----------
    reference, candidate : ComparedProgram
        The programs.
    inputs : sequence of mapping
        Inputs of `candidate`; three sets or more, so that no two values are alike by chance.

    Returns
    -------
    InspectionFinding or None
        The node; None if every result of `candidate` that matters is in the reference.
    str
        How many values were paired, in a sentence.

    Raises
    ------
    InputError
        If the reference draws at random, or they take different inputs.
    """
    if reference.drawing:
        raise InputError(
            f"{reference.drawing} draws at random, so that two files cannot be compared; give the noise as an input."
        )
    drawn = next((one for one in candidate.nodes if one.key == candidate.drawing), None)
    if drawn is not None:
        words = f"{drawn.key} ({drawn.operator}) draws at random, and nothing in {reference.label} does"
        return _found(drawn, "operator lowered as another", f"{words}.", ()), f"No values were paired: {words}."
    known = sketches(reference, [same_inputs(reference, candidate, one) for one in inputs])
    own = sketches(candidate, inputs)
    first = {name: near for name, (near, _) in nearest(known, known).items()}
    pairs, back = nearest(own, known), nearest(known, own)
    for one, other in zip(candidate.outputs, reference.outputs, strict=False):  # not with one equal by chance
        if one in own and other in known and not own[one].differs(known[other]) <= OTHER:
            pairs[one] = (other, own[one].differs(known[other]))
    paired = _Parting(reference, candidate, known, own, pairs, back, first, len(inputs))
    rounds = any(one.rounds for one in candidate.nodes)
    count = sum(apart <= APART for _, apart in paired.pairs.values())
    apart = paired.outputs_apart()
    note = (
        f"{count:,} of {len(own):,} values of {candidate.label} are in {reference.label} too; its outputs differ by at "
        f"most {number(apart)} of their root mean square (limit {number(OTHER)})."
    )
    counts = [len(one.outputs) for one in (candidate, reference)]
    if counts[0] != counts[1]:
        note += f" It has {counts[0]} outputs and new states, {reference.label} {counts[1]}: the last are not compared."
    begun = (next(paired.parting(), None), next(paired.replaced(), None))
    node = next(iter(sorted((one for one in begun if one is not None), key=lambda one: one.index)), None)
    for changed, right in changed_parameters(reference, candidate):
        if paired.differs(changed.outputs, right.outputs) > SAME and (node is None or changed.index < node.index):
            return paired.of_parameters(changed, right), note
    exact = same_constants(reference, candidate)
    if node is None and exact:
        paired = replace(paired, limit=EXACT)
        node = next(paired.parting(), None)
    elif node is None and rounds and not apart <= OTHER:
        exactly = {name: (other, own[name].differs(known[other])) for name, (other, _) in pairs.items() if other}
        paired = replace(paired, limit=REPLACED, pairs=exactly)
        node = next(paired.parting(), None)
    if node is None and not apart <= (APART if exact else OTHER) and not rounds:
        node = next(paired.unlike(), None)
        if node is None:
            return paired.of_outputs(apart), note
    return None if node is None else replace(paired.finding(node), counterpart=paired.counterpart(node)), note


class _Parting(PairedValues):
    """What is said of the node at which two programs part."""

    @property
    def _alike(self) -> float:
        """Up to which share of its level a value is another one times a number."""
        return float(np.minimum(self.limit, 1e-3))

    def _unread(self, node: ComparedNode, other: ComparedNode) -> list[tuple[Name, str]]:
        """Say which input of its counterpart neither a node reads nor those that go on from it."""
        mine = set().union(*(self.paired_reads(one) for one in self._region(node)))
        read = (one for one in other.reads if one in self.first and np.ptp(self.known[one].points) != 0)
        lacked = next((one for one in read if self.first[one] not in mine), None)
        words = f"it does not read '{lacked}', as {other.key} there does"
        return [] if lacked is None else [("operator lowered as another", words)]

    def finding(self, node: ComparedNode) -> InspectionFinding:
        """Say how a node differs from what reads the same in the reference."""
        others = self.counterparts(node)
        proof = ["Both were computed in float64, and what goes into the node is in both."]
        if others and others[0].operator == node.operator:
            other = others[0]
            proof.append(f"Its counterpart there is {_named(other)}.")
            how = [*differing(other, node), *self._unread(node, other)]
            for one, right in zip(node.outputs, other.outputs, strict=False):
                if one in self.own and right in self.known:
                    how += [("changed scale", words) for words in scaled(self.own[one], self.known[right], self._alike)]
            return self._told(node, how, proof)
        return self._elsewhere(node, others, proof)

    def of_outputs(self, apart: float) -> InspectionFinding:
        """Say that the outputs are others, where no node explains it."""
        words = f"The outputs differ by {number(apart)} of the root mean square from those of {self.reference.label}"
        return InspectionFinding("outputs", "unknown", f"{words}, and no node explains it.")

    def of_parameters(self, node: ComparedNode, other: ComparedNode) -> InspectionFinding:
        """Say how a node that reads constants alone differs from the one that reads most of the same."""
        proof = [f"Its counterpart there, which reads the same constants but for this, is {_named(other)}."]
        return replace(self._told(node, list(differing(other, node)), proof), counterpart=other.key)

    def _told(self, node: ComparedNode, how: list[tuple[Name, str]], proof: list[str]) -> InspectionFinding:
        where = f"{node.key} ({node.operator}) is the first node whose result {self.reference.label} does not have"
        if how:
            return _found(node, how[0][0], f"{where}: {'; '.join(words for _, words in how)}.", proof)
        statement = f"{where}, though operator, constants and attributes are the same."
        apart = float(np.max([self.pairs[one][1] for one in node.reads if one in self.pairs], initial=0.0))
        if apart > SAME:
            words = f"Its input is {number(apart)} of its root mean square apart: it makes that large."
            found = InspectionFinding.at(node, "precision", "precision", statement, *proof, words)
            return replace(found, mechanism=Mechanism("too few bits", WORDS["too few bits"], (words,)))
        turned = self._reordered(node)
        if turned is None:
            integers = [name for name in node.reads if name not in self.own]
            proof += [f"It reads '{name}', integers that were not compared." for name in integers]
            return InspectionFinding.at(node, "structure", "unknown", statement, *proof)
        return self._turned(turned, node, proof)

    def _turned(self, turned: ComparedNode, node: ComparedNode, proof: list[str]) -> InspectionFinding:
        words = f"{turned.key} ({turned.operator}) gives the elements of {self.pairs[turned.outputs[0]][0]} of"
        words = f"{words} {self.reference.label} in another order"
        return _found(turned, "changed layout or shift", f"{words}; {node.key} is the first that shows it.", proof)

    def _reordered(self, node: ComparedNode) -> ComparedNode | None:
        """Return the first node before this one, of those that it reads from, that changes the order of elements."""
        needed, before = set(node.reads), []
        for one in reversed(self.candidate.nodes[: node.index]):
            if needed & set(one.outputs):
                needed |= set(one.reads)
                before.append(one)
        paired = {name for name in needed & set(self.pairs) if self.pairs[name][1] <= self.limit}
        ordered = {name for name in paired if self._in_order(name)}
        turned = (one for one in reversed(before) if paired & set(one.outputs) and not ordered & set(one.outputs))
        return next((one for one in turned if ordered >= paired & set(one.reads)), None)

    def _in_order(self, name: str) -> bool:
        """Return whether the reference has a value with its elements in the same order."""
        return any(self.own[name].differs(one) <= SAME for one in self.known.values())

    def _elsewhere(self, node: ComparedNode, others: list[ComparedNode], proof: list[str]) -> InspectionFinding:
        """Say what parts where the two are written in other operators, between results that both have."""
        region = self._region(node)
        other = next((one for one in others if self.is_missing(one)), None)
        where = f"{node.key} ({node.operator}) is the first node whose result {self.reference.label} does not have"
        if other is None:
            name: Name = "operator lowered as another" if node.reads else "changed constant"
            why = f"no {node.operator} there reads the same" if node.reads else "it is made of constants alone"
            return _found(node, name, f"{where}: {why}.", proof)
        proof.append(f"What reads the same there and gives something else is {_named(other)}.")
        for one in region:
            how = list(foreign_constants(other, one, region, self.reference.nodes))
            if how:
                part = f"{one.key} ({one.operator}) is where the file parts from {self.reference.label}"
                return _found(one, "changed constant", f"{part}: {'; '.join(how)}.", proof)
        for one in region:
            multiple = self._multiple(one)
            if multiple:
                return self._told(one, [("changed scale", words) for words in multiple], proof)
        read = next((self.pairs[one][0] for one in node.reads if one in self.pairs), "")
        value = self.own.get(node.outputs[0])
        factor = scaled(value, self.known[read], self._alike) if value is not None and read in self.known else []
        if factor:
            words = factor[0].replace("what it is there", "what goes into it")
            statement = f"{where}: no {node.operator} there reads the same, and {words}."
            return _found(node, "changed scale", statement, proof)
        turned = self._reordered(node) if _kind(node.operator) == _kind(other.operator) else None
        if turned is not None and not all(self._in_order(name) for name in node.reads if name in self.own):
            return self._turned(turned, node, proof)
        unread = "".join(f"; {words}" for _, words in self._unread(node, other))
        statement = f"{where}: it computes something else than {other.key} ({other.operator}) there{unread}."
        return _found(node, "operator lowered as another", statement, proof)

    def _multiple(self, node: ComparedNode) -> list[str]:
        """Say so if what a node gives is a multiple of a result that only the reference has: the nearest such."""
        value = self.own.get(node.outputs[0])
        others = [self.known[name] for name, (_, apart) in self.back.items() if apart > self.limit]
        factors = [factor_of(value, one, self._alike) for one in others] if value is not None else []
        near = [one for one in factors if one is not None and one > 0]
        if not near:
            return []
        return [f"its result is exactly {number(min(near, key=lambda one: abs(np.log(one))))} times what it is there"]

    def _region(self, node: ComparedNode) -> list[ComparedNode]:
        """Return the node and those after it that read its unpaired results, a few nodes far."""
        found, values = [node], set(node.outputs)
        for one in self.candidate.nodes[node.index + 1 :]:
            if values & set(one.reads) and len(found) < 12:
                found.append(one)
                values |= set(one.outputs)
        return found


def _found(node: ComparedNode, name: Name, statement: str, proof: Sequence[str]) -> InspectionFinding:
    """Return a finding that the file is to blame for, with what happened."""
    found = InspectionFinding.at(node, "structure", "file", statement, *proof)
    return replace(found, mechanism=Mechanism(name, WORDS[name], (statement.rstrip("."),)))


def _named(node: ComparedNode) -> str:
    return f"{node.key} ({node.source})" if node.source else node.key


def _kind(operator: str) -> str:
    """Return an operator's name without what says of how many axes it is: that of conv2d and Conv is the same."""
    return re.sub("[123]d$", "", plain_name(operator))
