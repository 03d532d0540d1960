"""Two programs on the same inputs: values are paired by what they are, and the first node that parts is named.

Both are computed in float64 by their own definitions, so that no runtime is in between. Names do not count, nor does
the order of the elements: a value is known by its size and by what its elements are, sorted. Programs that are written
in other operators (a linear layer as a product and a sum) part and come together again; where they do, nothing is
wrong. They do not where an output is another one, or where something forgets what was different: a clip, a condition.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from kokoro_nb.errors import InputError
from kokoro_nb.inspection.blame import InspectionFinding
from kokoro_nb.inspection.compared_program import (
    ComparedNode,
    ComparedProgram,
    changed_parameters,
    differing,
    foreign_constants,
    largest_change,
    same_constants,
    same_weight,
)
from kokoro_nb.inspection.value_sketch import ValueSketch, factor_of, nearest, scaled, sketches
from kokoro_nb.inspection.value_types import Arrays
from kokoro_nb.locate.culprit import Mechanism, Name
from kokoro_nb.markup import number

APART = 0.01  # of its root mean square: what rounding of constants to 16 bits does to a value is below it
OTHER = 0.05  # of its root mean square, element by element: what rounding of constants to 8 bits does is below it
REPLACED = 0.25  # of a constant's peak: what rounding to 4 bits does to it (1/14) is below it
EXACT = 2e-5  # of its root mean square: more than another order of summation or a number of float32 makes of a value
EXACTLY = 1e-9  # of its root mean square: two results in float64 of constants of the same bits
TIMES = 20.0  # how much further apart than what went into it a result must be
SAME = 1e-6  # of the root mean square: two files in float64 that mean the same
_FORGETTING = "clip where max min relu sign floor ceil round cast greater less equal argmax"
FORGETTING = frozenset(_FORGETTING.split())
"""Operators that give the same for different values."""
REBUILDING = frozenset(("dequantizelinear", "cast"))
"""Operators that make the floats of a constant from what was rounded."""
WORDS: dict[Name, str] = {
    "changed constant": "the file has another constant",
    "operator lowered as another": "the file computes something else",
    "changed scale": "the file has a factor or an offset more",
    "changed layout or shift": "the file has the elements in another order",
    "too few bits": "a difference of its input that rounding may make, and that it makes large",
}
REGROUPED = frozenset(("mul", "add", "sub", "div", "matmul"))
"""Operators of which a chain may be written in another order: results on the way differ, and nothing is wrong."""


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
    paired = _Paired(reference, candidate, known, own, pairs, back, first, len(inputs))
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


@dataclass(frozen=True, eq=False)
class _Paired:
    """Two programs whose values are paired: each value's nearest in the other one."""

    reference: ComparedProgram
    candidate: ComparedProgram
    known: Mapping[str, ValueSketch]
    own: Mapping[str, ValueSketch]
    pairs: Mapping[str, tuple[str, float]]
    back: Mapping[str, tuple[str, float]]
    first: Mapping[str, str]
    sets: int
    limit: float = APART

    def parting(self) -> Iterator[ComparedNode]:
        """Yield the nodes that part for good: first those that an output shows, then those that something masks."""
        ahead = _unpaired_ahead(self.candidate, self.pairs, self.limit)
        ends = set(self.candidate.outputs)
        begun = [node for node in self.candidate.nodes if self._begins(node)]
        yield from (node for node in begun if ends & {name for one in node.outputs for name in ahead[one]})
        if self.limit != APART:
            return
        for node in begun:
            regrouped = _plain(node.operator) in REGROUPED
            if self._is_forgotten(node, ahead) or (not regrouped and self.counterparts(node, whole=True)):
                yield node

    def outputs_apart(self) -> float:
        """Return how far the floats among the outputs are from those of the reference, in order, element by element."""
        pairs = zip(self.candidate.outputs, self.reference.outputs, strict=False)
        both = [(self.own[a], self.known[b]) for a, b in pairs if a in self.own and b in self.known]
        return float(np.max([one.differs(other) for one, other in both], initial=0.0))

    def unlike(self) -> Iterator[ComparedNode]:
        """Yield the nodes whose result the reference has nowhere, and that an output shows, whatever they read.

        What is made of constants alone may be a constant there.
        """
        limits: dict[str, float] = {}  # of each value that is made so: how far rounding of the constants may put it
        for node in self.candidate.nodes:
            if limits.keys() >= set(node.reads) and any(node.constants):
                limits |= dict.fromkeys(node.outputs, REPLACED if _plain(node.operator) in REBUILDING else APART)
        folded = nearest({name: self.own[name] for name in limits.keys() & set(self.own)}, self._constants())
        alike = {name: (other, 0.0) for name, (other, apart) in folded.items() if apart <= limits[name]}
        ahead, ends = _unpaired_ahead(self.candidate, {**self.pairs, **alike}, self.limit), set(self.candidate.outputs)
        for node in self.candidate.nodes:
            if any(ends & ahead[name] for name in node.outputs):
                yield node

    def _constants(self) -> dict[str, ValueSketch]:
        """Return what the floats among the constants of the reference are known by."""
        named = (constant for node in self.reference.nodes for constant in node.constants if constant is not None)
        return {
            name: ValueSketch.joined([ValueSketch.of(array.astype(np.float64))] * self.sets)
            for name, array in named
            if array.dtype.kind == "f" and array.size
        }

    def replaced(self) -> Iterator[ComparedNode]:
        """Yield the nodes with other constants than their counterpart, which reads the same in the same layout.

        A channel with the other sign has elements of the same sizes, so that in any order they look the same.
        """
        for node in self.candidate.nodes:
            others = [one for one in self.counterparts(node, whole=True) if self._reads_alike(node, one)]
            changed = [next(differing(one, node), None) is not None for one in others]
            if others and all(changed) and all(self._is_another(node, one) for one in others):
                yield node

    def _is_another(self, node: ComparedNode, other: ComparedNode) -> bool:
        """Return whether what a node gives is another thing: by itself, or because no rounding makes its constants.

        A weight that meets an almost silent channel hardly moves the result.
        """
        apart = self.differs(node.outputs, other.outputs)
        return apart > OTHER or (apart > SAME and largest_change(other, node) > REPLACED)

    def _reads_alike(self, node: ComparedNode, other: ComparedNode) -> bool:
        if dict(node.attributes) != dict(other.attributes) or len(node.reads) != len(other.reads):
            return False
        return self.differs(node.reads, other.reads) <= SAME

    def differs(self, names: Sequence[str], others: Sequence[str]) -> float:
        """Return how far values are from others, element by element; infinite where one is not known."""
        pairs = [(self.own.get(one), self.known.get(other)) for one, other in zip(names, others, strict=False)]
        apart = [float("inf") if a is None or b is None else a.differs(b) for a, b in pairs]
        return float(np.max(apart, initial=0.0))

    def _is_forgotten(self, node: ComparedNode, ahead: Mapping[str, set[str]]) -> bool:
        """Return whether what is different is forgotten by an operator that the reference has in the same place."""
        unpaired = {name for one in node.outputs for name in ahead[one]}
        there = {name: one.operator for one in self.reference.nodes for name in one.outputs}
        for reader in self.candidate.nodes:
            kind = _plain(reader.operator)
            if kind in FORGETTING and unpaired & set(reader.reads) and _plain(node.operator) not in FORGETTING:
                twins = (self.pairs[name] for name in reader.outputs if name in self.pairs)
                if any(apart <= self.limit and _plain(there.get(twin, "")) == kind for twin, apart in twins):
                    return True
        return False

    def _begins(self, node: ComparedNode) -> bool:
        """Return whether the reference has what goes into a node and not what it gives."""
        read = [self.pairs[name][1] for name in node.reads if name in self.pairs and not self._is_flag_alone(name)]
        given = [name for name in node.outputs if name in self.pairs]
        if not given or not read or any(apart > (EXACTLY if self.limit == EXACT else self.limit) for apart in read):
            return False  # of what is made of integers alone it is not known whether they are the same
        if node.rounds and self.limit != REPLACED and not any(one.rounds for one in self.reference.nodes):
            return False  # a quantised file of one that is not
        apart = self.pairs[given[0]][1]
        return apart > np.maximum(self.limit, np.minimum(TIMES * np.max(read, initial=SAME), REPLACED))

    @property
    def _alike(self) -> float:
        """Up to which share of its level a value is another one times a number."""
        return float(np.minimum(self.limit, 1e-3))

    def _is_flag_alone(self, name: str) -> bool:
        """Return whether a value is made of flags that the reference has not: it may say the opposite there."""
        return self.own[name].flags and self.pairs[name][1] > self.limit

    def counterparts(self, node: ComparedNode, whole: bool = False) -> list[ComparedNode]:
        """Return the nodes of the reference that read the same, those of the same operator first.

        With `whole`, those alone that are of the same operator and read the same and nothing else.
        """
        read = self._paired_reads(node)
        if whole:
            like = [one for one in self.reference.nodes if one.operator == node.operator]
            return [one for one in like if read and read == self._read(one)]
        found = [
            (not same_weight(one, node), one.operator != node.operator, not self._is_missing(one), -len(common), k)
            for k, one in enumerate(self.reference.nodes)
            if (common := read & self._read(one)) or same_weight(one, node)
        ]
        return [self.reference.nodes[k] for *_, k in sorted(found)]

    def _paired_reads(self, node: ComparedNode) -> set[str]:
        """Return what a node of the candidate reads and the reference has, by the names there."""
        pairs = (self.pairs[name] for name in node.reads if name in self.pairs)
        return {other for other, apart in pairs if apart <= self.limit}

    def _unread(self, node: ComparedNode, other: ComparedNode) -> list[tuple[Name, str]]:
        """Say which input of its counterpart neither a node reads nor those that go on from it."""
        mine = set().union(*(self._paired_reads(one) for one in self._region(node)))
        read = (one for one in other.reads if one in self.first and np.ptp(self.known[one].points) != 0)
        lacked = next((one for one in read if self.first[one] not in mine), None)
        words = f"it does not read '{lacked}', as {other.key} there does"
        return [] if lacked is None else [("operator lowered as another", words)]

    def _read(self, node: ComparedNode) -> set[str]:
        """Return what a node of the reference reads, each by the first value that is the same in another order."""
        return {self.first[name] for name in node.reads if name in self.first}

    def counterpart(self, node: ComparedNode) -> str:
        """Return the operator of the reference in whose place a node stands: the first that the candidate lacks."""
        ahead, ends = _unpaired_ahead(self.reference, self.back, self.limit), set(self.reference.outputs)
        folded: set[str] = set()  # what is made of constants alone
        lacked = []
        for one in self.reference.nodes:
            if folded.issuperset(one.reads):
                folded |= set(one.outputs)
            elif any(ends & ahead[name] for name in one.outputs):
                lacked += [] if any(ahead.get(name) for name in {*one.reads} - folded) else [one.key]
        return next(iter([*lacked, *(one.key for one in self.counterparts(node))]), "")

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
        other = next((one for one in others if self._is_missing(one)), None)
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

    def _is_missing(self, node: ComparedNode) -> bool:
        """Return whether the candidate has nothing like the result of a node of the reference."""
        return any(self.back[name][1] > self.limit for name in node.outputs if name in self.back)

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


def _plain(operator: str) -> str:
    """Return an operator's name without its domain and overload, in small letters.

    >>> _plain("aten.clamp.default"), _plain("com.microsoft.Clip"), _plain("Where")
    ('clip', 'clip', 'where')
    """
    parts = operator.lower().replace("::", ".").split(".")
    name = parts[1] if parts[0] == "aten" else parts[-1]
    return "clip" if name == "clamp" else name


def _kind(operator: str) -> str:
    """Return an operator's name without what says of how many axes it is: that of conv2d and Conv is the same."""
    return re.sub("[123]d$", "", _plain(operator))


def _unpaired_ahead(
    program: ComparedProgram, pairs: Mapping[str, tuple[str, float]], limit: float
) -> dict[str, set[str]]:
    """Return for each value those that are made of it through unpaired values alone, itself included if it is one."""
    readers: dict[str, set[str]] = {}
    for node in program.nodes:
        for name in node.reads:
            readers.setdefault(name, set()).update(node.outputs)
    ahead: dict[str, set[str]] = {}
    for node in reversed(program.nodes):
        for name in node.outputs:
            apart = pairs[name][1] > limit if name in pairs else False
            ahead[name] = {name}.union(*(ahead.get(one, set()) for one in readers.get(name, ()))) if apart else set()
    return ahead
