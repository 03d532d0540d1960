"""What is said of the node at which a program first parts from what is right, and who is to blame."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice, product

import numpy as np

from kokoro_nb.inspection import compared_constants
from kokoro_nb.inspection.compared_constants import LOWERED, Cause, differing, largest_change, other_number
from kokoro_nb.inspection.compared_program import ComparedNode
from kokoro_nb.inspection.compared_values import ValueSketch, channel_fit, factor_of, nearest, scaled
from kokoro_nb.inspection.judged_run import InspectionFinding
from kokoro_nb.inspection.paired_values import APART, CLOSE, EXACT, OTHER, REGROUPED, REPLACED, SAME, PairedValues
from kokoro_nb.inspection.rearranged_constants import rearranged
from kokoro_nb.inspection.value_types import Value
from kokoro_nb.locate.culprit import Mechanism, Name
from kokoro_nb.markup import listed, number
from kokoro_nb.traces.trace import TRAINS

WORDS: dict[Name, str] = {
    "changed constant": "the file has another constant",
    "quantisation range": "8 bits or fewer for a tensor, in one range for the loud and the quiet of it",
    "frozen length": "the file has the length of the example that it was exported with",
    "operator lowered as another": "the file computes something else",
    "changed scale": "the file has a factor or an offset more",
    "changed layout or shift": "the file has the elements in another order",
    "too few bits": "a difference of its input that rounding may make, and that it makes large",
}

FEW = 3  # differences that are said


class PairedPrograms(PairedValues):
    """Two programs, and what is said of the node at which they part."""

    @property
    def note(self) -> str:
        """How many values were paired, and how far the outputs are apart, in a sentence."""
        if self.candidate.drawing:
            return f"No values were paired: {self.candidate.drawing} draws at random."
        count = sum(apart <= APART for _, apart in self.pairs.values())
        apart = "have no definition here, and were not computed in float64"
        if any(name in self.own for name in self.candidate.outputs):
            apart = f"differ by at most {number(self.outputs_apart)} of their root mean square (limit {number(OTHER)})"
        note = f"{count:,} of {len(self.own):,} values of {self.candidate.label} are in {self.reference.label} too"
        note += f"; its outputs {apart}."
        mine, theirs = len(self.candidate.outputs), f"{self.reference.label} {len(self.reference.outputs)}"
        if mine != len(self.reference.outputs):
            note += f" It has {mine} outputs and new states, {theirs}: the last are not compared."
        if self.reference.held:
            note += f" It lacks the inputs {listed(self.reference.held)}, which the reference has as given."
        own, known = (compared_constants.exact_in_halves(one) for one in (self.candidate, self.reference))
        if len(own) > len(known):
            note += f" Constants of float32 that 16 bits hold exactly: {len(own)}, as '{own[-1]}'; there {len(known)}."
        every = self._changed(self.candidate.nodes)
        words = "; ".join(islice((f"{one}, of which {how}" for one, _, how, part in every if part > REPLACED), FEW))
        return f"{note} What is not that of its counterpart: {words}." if words else note

    @property
    def finding(self) -> InspectionFinding | None:
        """The first node of `candidate` whose result the reference does not have although it has its input.

        None if every result of `candidate` that matters is in the reference.
        """
        for drawn in (one for one in self.candidate.nodes if one.key == self.candidate.drawing):
            words = f"{drawn} draws at random, and nothing in {self.reference.label} does"
            words += ": the file was exported in training mode" if "dropout" in drawn.kind else ""
            return _found(drawn, LOWERED, f"{words}.")
        begun = [*islice(self.parting(), 1), *islice(self._replaced(), 1)]
        node = next(iter(sorted(begun, key=lambda one: one.index)), None)
        for found in self._of_constants():
            if node is None or found.index < node.index:
                return found
        paired = self if node is not None else self._held_closer()
        node = next(paired.parting(), None) if node is None else node
        if node is None and self.outputs_apart <= (APART if self.exact else OTHER):
            return None
        node = next(paired.unlike(), None) if node is None and not self.candidate.rounds else node
        if node is None:
            words = f"The outputs differ by {number(self.outputs_apart)} of the root mean square from those of"
            words = f"{words} {self.reference.label}, and no node explains it."
            return InspectionFinding("outputs", "unknown", words)
        for one, twin, words, part in paired._changed(paired.behind(node.reads)):
            if np.isinf(part) and paired.is_missing(twin):
                return paired._first(one, [(LOWERED, words)], twin.key, node)
        found = paired.at(node)
        return replace(found, counterpart=found.counterpart or paired.counterpart(node))

    def _replaced(self) -> Iterator[ComparedNode]:
        """Yield the nodes with other constants or attributes than their counterpart, and another result of the same.

        A channel with the other sign has elements of the same sizes, so that in any order they look the same. Factors
        that are exchanged in a chain are no others where no output shows it, and an attribute may be another one where
        the outputs are right: programs differ in their layouts.
        """
        shown = self.outputs_apart > (SAME if self.exact else OTHER) or not {*self.candidate.outputs} <= {*self.own}
        for node, other, words, part in self._changed(self.candidate.nodes):
            if "attribute" in words and self.outputs_apart <= OTHER:
                continue
            least = SAME if part > REPLACED else OTHER  # which rounding of constants explains
            same, apart = self.differs(node.reads, other.reads), self.differs(node.outputs, other.outputs)
            like = (one for one in self.reference.nodes if one.operator == node.operator)
            moved = (len(one.held) == len(node.held) and not any(differing(one, node)) for one in like)
            if same <= SAME and apart > least and (shown or not any(moved)):
                yield node

    def _changed(self, nodes: Sequence[ComparedNode]) -> Iterator[tuple[ComparedNode, ComparedNode, str, float]]:
        """Yield those with other constants or attributes than all that reads the same there, the nearest, and which.

        With each the largest change of a constant, of its peak; infinite of an attribute.
        """
        for node in nodes:
            others = {one: list(differing(one, node)) for one in self.counterparts(node, whole=True)}
            if not others or not all(others.values()):
                continue
            part, _, one = sorted((largest_change(one, node), k, one) for k, one in enumerate(others))[0]
            words = "; ".join(words for _, words in others[one])
            yield node, one, words, np.inf if "attribute" in words else part

    def _held_closer(self) -> "PairedPrograms":
        """Return it as close as constants of the same bits allow, or else one of integers whose outputs differ."""
        if self.exact:
            return replace(self.held_to(EXACT), limit=EXACT)
        if not self.candidate.rounds or self.outputs_apart <= OTHER:
            return self
        exactly = {name: (other, self.differs([name], [other])) for name, (other, _) in self.pairs.items() if other}
        return replace(self, limit=REPLACED, pairs=exactly)

    def _of_constants(self) -> Iterator[InspectionFinding]:
        """Yield what is said of the nodes that read constants alone, and others than the reference has."""
        for changed, right in compared_constants.changed_parameters(self.reference, self.candidate):
            apart = self.differs(changed.outputs, right.outputs)
            if apart > OTHER or (apart > SAME and not self.is_rounded(changed)):
                proof = f"Its counterpart there, with the same constants but this one, is {_named(right)}."
                yield replace(self._first(changed, list(differing(right, changed)), right.key), proof=(proof,))
        for (changed, right), words in compared_constants.misquantised_weights(self.reference, self.candidate):
            yield self._first(changed, [("changed constant", words)], right.key, changed)

    def unseen(self, outputs: Mapping[str, Value]) -> InspectionFinding | None:
        """Say which of the runtime's outputs is another than the reference's, of those that float64 could not compute.

        Parameters
        ----------
        outputs : mapping
            What the runtime gave on the first inputs, by name.
        """
        pairs = zip(self.candidate.outputs, self.reference.outputs, strict=False)
        lacking = {mine: other for mine, other in pairs if mine in outputs and mine not in self.own}
        undefined = [one for one in self.candidate.nodes if "." in one.operator and not {*one.outputs} & {*self.own}]
        for node in undefined if lacking else ():
            like = [one for one in self.counterparts(node, whole=True) if not {*one.outputs} & {*self.known}]
            for _, words in differing(like[0], node) if len(like) == 1 else ():
                return _found(node, LOWERED, f"{node} has no definition here, and {words} in {self.reference.label}.")
        for mine, other in ((mine, other) for mine, other in lacking.items() if other in self.known):
            apart = ValueSketch.of(np.asarray(outputs[mine], np.float64)).differs(self.known[other].first)
            if apart > OTHER:
                words = f"The output '{mine}' is {number(apart)} of the root mean square from that of"
                words = f"{words} {self.reference.label} (limit {number(OTHER)}); what gives it has no definition here"
                if not undefined:
                    return InspectionFinding("outputs", "unknown", f"{words}.")
                words, there = f"{words}: {undefined[0]}.", self.counterpart(undefined[0])
                return InspectionFinding.at(undefined[0], "outputs", "unknown", words, counterpart=there)
        return None

    def at(self, node: ComparedNode) -> InspectionFinding:
        """Say how a node differs from what reads the same in the reference."""
        others = self.counterparts(node)
        if node.trains and not any(one.trains for one in others):
            return _found(node, LOWERED, f"{node} {TRAINS}.")
        twin = next((one for one in others[:1] if one.operator == node.operator), None)
        other = twin or next((one for one in others if self.is_missing(one)), None)
        found = self._elsewhere(node, other, others) if twin is None else self._unlike_twin(node, twin)
        proof = ["Both were computed in float64, where the inputs of the node agree."]
        if other is not None:
            words = "Its counterpart there is" if twin else "The operator of the reference with the same input is"
            proof.append(f"{words} {_named(other)}.")
        said = next(found)
        return replace(said, proof=(*proof, *(one for one in said.proof if one not in proof)))

    def _first(
        self, node: ComparedNode, how: Sequence[Cause], there: str = "", shown: ComparedNode | None = None
    ) -> InspectionFinding:
        """Say that a node is the first divergence, or where that begins which `shown` is the first to show."""
        part = "the first divergence" if shown is None else "where the file parts"
        words = f"{node} is {part} from {self.reference.label}: {'; '.join(words for _, words in how[:FEW])}"
        words += "" if shown is None or shown is node else f"; {shown.key} is the first that shows it"
        bare = any(one.key == there and not one.reads for one in self.reference.nodes)  # what reads it stands for it
        return _found(node, how[0][0], f"{words}.", "" if bare else there)

    def _unlike_twin(self, node: ComparedNode, other: ComparedNode) -> Iterator[InspectionFinding]:
        """Yield what is different about a node whose counterpart is of the same operator, or else before it."""
        how, rewired = list(differing(other, node)), self.rewired(node, other)
        there = other.key if how and not rewired else ""
        if rewired and not how:
            yield from self._turned(node, [other])
        how += [*rewired, *self.constants_in_place(node, other)]
        for one, right in zip(node.outputs, other.outputs, strict=False):
            if one in self.own and right in self.known:
                how += scaled(self.own[one], self.known[right], self.alike)
        mine, theirs = (len(one.reads) + len(one.held) for one in (node, other))
        how = how or [*self._as_output(node)][:1]
        if not how and mine != theirs:
            how = [(LOWERED, f"it has {mine} inputs in place of {theirs}")]
        if rewired and how[0] == rewired[0] and self.lacked is not None:
            own, known = ([one.kind for one in each.nodes] for each in (self.candidate, self.reference))
            how[1:1] = self._lacking() if own.count(self.lacked.kind) < known.count(self.lacked.kind) else []
        if how:
            yield self._first(node, how, there)
        for earlier, twin, words, part in self._changed(self.behind(node.reads)):
            if part > REPLACED:
                yield self._first(earlier, [("changed constant", words)], twin.key, node)
        statement = f"{node} is the first divergence from {self.reference.label}, though operator, constants"
        statement = f"{statement} and attributes are the same."
        apart = float(np.max([self.pairs[one][1] for one in node.reads if one in self.pairs], initial=0.0))
        if apart > SAME:
            words = f"Its input is {number(apart)} of its root mean square apart: it makes that large."
            cause = Mechanism("too few bits", WORDS["too few bits"], (words,))
            yield InspectionFinding.at(node, "precision", "precision", statement, words, mechanism=cause)
        yield from self._turned(node, [other])
        unseen = [f"It reads '{name}', integers that were not compared." for name in node.reads if name not in self.own]
        yield InspectionFinding.at(node, "structure", "unknown", statement, *unseen)

    def _turned(self, node: ComparedNode, others: Sequence[ComparedNode]) -> Iterator[InspectionFinding]:
        """Yield the node that puts elements in another order, if one before `node` does: see `PairedValues.turned`."""
        for one, there in self.turned(node, others):
            giver = self.reference.makers[there].key if there in self.reference.makers else there
            words = f"{one} gives the elements of {giver} of {self.reference.label} in another order"
            yield _found(one, "changed layout or shift", f"{words}; {node.key} is the first that shows it.", giver)

    def _as_output(self, node: ComparedNode) -> Iterator[Cause]:
        """Say what an output of the file is there: the same elements in another order, or what an operator reads."""
        ends = {one: self.own[one] for one in node.outputs if one in self.candidate.outputs and one in self.own}
        near = nearest(ends, self.known).items()
        for name, there in ((name, there) for name, (there, apart) in near if apart <= self.limit):
            if not self._same_order(name, there):
                yield "changed layout or shift", f"it gives the elements of {there} there in another order"
            for other in (one for one in self.reference.outputs if self.first.get(one) == self.first[there]):
                yield LOWERED, f"its result is that of the output '{other}' of the reference"
            for reader in (one for one in self.reference.nodes if there in one.reads):
                yield LOWERED, f"the file ends here, and has no {reader}"

    def _elsewhere(
        self, node: ComparedNode, other: ComparedNode | None, others: list[ComparedNode]
    ) -> Iterator[InspectionFinding]:
        """Yield what parts where the two are written in other operators, between results that both have."""
        yield from self._turned(node, others)
        for giver, words in rearranged(self, node, others):
            yield self._first(node, [("changed constant", words)], giver)
        if other is None:
            if not node.reads:
                yield self._first(node, [("changed constant", "it is made of constants alone")])
            yield from (self._first(node, [said]) for said in self._as_output(node))
            yield from self._other_number(node)
            words = f"the reference has no {node.operator} with the same input"
            yield self._first(node, [(LOWERED, words), *self._lacking()])
            return
        region = self.region(node)
        if node.kind == "dequantizelinear" or (node.rounds and node.kind != "dynamicquantizelinear"):
            yield self._first(node, [("quantisation range", "the range of its integers cuts or coarsens it")])
        given = self.paired_reads(node)
        givers = [one for one in self.reference.nodes if given & set(one.outputs)]  # which may add a bias, too
        added = [one for one in region if one.kind in REGROUPED]
        for one, there in (*product(region, [other]), *product(added, givers)):
            if how := list(compared_constants.foreign_constants(there, one, region, self.reference.nodes)):
                yield self._first(one, how, shown=one)
        if folded := list(self.constants_in_place(node, other)):
            yield self._first(node, folded)
        read = next((self.pairs[one][0] for one in node.reads if one in self.pairs), "")
        alone = not any(one.kind == node.kind for one in others)
        more = read in self.known and node.outputs[0] in self.own and any(other.kind == one.kind for one in region)
        for name, factor in scaled(self.own[node.outputs[0]], self.known[read], self.alike) if more and alone else ():
            words = factor.replace("the reference's", "its input's")
            yield self._first(node, [(name, f"the reference has no {node.operator} with the same input, and {words}")])
        yield from (self._first(one, [multiple]) for one in region for multiple in self._multiples(one))
        yield from self._other_number(node)
        sizes, weights = ({one.size for _, one in each.held if one.size > 1} for each in (node, other))
        like = [] if sizes & weights else [one for one in self.reference.nodes if one.kind == node.kind]
        behind = [one for one in like if {*other.outputs} & {*one.reads}][:1]  # else it is the other, with its weight
        for several, there in product(([node], region), (other, *behind)):
            known = several is region or there.kind == node.kind
            for cause in self.explained_by_rules(several, there) if known else ():
                words = f"its result is not that of {there} in the reference: {cause}"
                yield replace(self._first(node, [(LOWERED, words)], there.key), mechanism=cause)
        if other.kind == node.kind and (how := [one for one in differing(other, node) if "attribute" in one[1]]):
            yield self._first(node, how, other.key)
        for giver, words in rearranged(self, node, [other], numbers=True):
            yield self._first(node, [(LOWERED, words)], giver)
        like = [one for one in self.reference.nodes if one.kind == node.kind != other.kind and self.is_missing(one)]
        for there, here in product(like, (one for one in self.candidate.nodes if one.kind == other.kind)):
            if self.paired_reads(here) == self.read_by(there) != set():
                words = f"it reads what {other} reads there, and {here} what {there} reads there: they are exchanged"
                yield self._first(node, [(LOWERED, words)], other.key)
        for key, words in self._channel_factors(node):
            yield self._first(node, [("changed constant", words)], key, node)
        before = [one for one in self.reference.nodes if one is other or {*one.outputs} & {*other.reads}]
        for there in (one for one in before if one.kind == "pad"):  # which is folded into the attributes of a node
            pads, pad = list(node.attributes.get("pads", [])), list(there.attributes.get("pad", []))
            if len(pads) == len(pad) == 2 and pads != pad:
                yield self._first(node, [(LOWERED, f"its pads are {pads} in place of {pad} of {there} there")])
        for after in behind if other.kind != node.kind else ():
            yield self._first(node, [(LOWERED, f"the file has no {other}, which is before {after.key} there")])
        for after in (one for one in region[1:2] if alone and one.kind == other.kind):
            words = f"it stands before {after.key}, and no {node.operator} stands before {other} there"
            yield self._first(node, [(LOWERED, words)])
        also = [*differing(other, node), *self.rewired(node, other)]
        words = "; ".join([f"its result is not that of {other} in the reference", *(words for _, words in also[:FEW])])
        yield self._first(node, [(also[0][0] if also else LOWERED, words)], other.key)

    def _lacking(self) -> list[Cause]:
        """Say which operator the file lacks, if an output shows it."""
        words = "the first operator there that the file lacks is"
        return [(LOWERED, f"{words} {one.key}") for one in (self.lacked,) if one is not None]

    def _other_number(self, node: ComparedNode) -> Iterator[InspectionFinding]:
        """Yield the nodes, this one or before it, with another number than their counterpart, and another result.

        A counterpart is of the same kind and gives what it gives, else reads what it reads.
        """
        for one in [*self.behind(node.reads), node]:
            read, pairs = self.paired_reads(one), [self.pairs[name] for name in one.outputs if name in self.pairs]
            if any(apart <= CLOSE * SAME and there not in read for there, apart in pairs):
                continue  # it is there, and no copy of what it reads; a small bound moves few elements, and little
            like = [each for each in self.reference.nodes if each.kind == one.kind]
            near = [each for each in like if {*dict(pairs)} & {*each.outputs}]
            near = near or [each for each in like if read & self.read_by(each)]
            numbers = [list(other_number(each, one)) for each in near]
            for found in numbers[0] if near and all(numbers) else ():
                yield self._first(one, [self._of_number(*found)], near[0].key, node)

    def _of_number(self, there: str, right: float, here: str, value: float) -> Cause:
        """Say that a number is another one, and whether it is the length that an open axis had."""
        words = compared_constants.instead(there, right, here, value)
        for name, axis in self.candidate.open_axes:
            if right == self.inputs[0][name].shape[axis]:
                return "frozen length", f"{words}, the length of axis {axis} of '{name}', which is open"
        return "changed constant", words

    def _channel_factors(self, node: ComparedNode) -> Iterator[tuple[str, str]]:
        """Yield the operator whose channels differ from a node's by a factor and an offset, as of folded constants."""
        size = self.own[node.outputs[0]].size if node.outputs[0] in self.own else 0
        near = [one for one in self.reference.nodes if self.is_missing(one) and one.outputs[0] in self.known]
        near = [one for one in near if self.known[one.outputs[0]].size == size]
        values = self.values_of(self.reference, {one.outputs[0] for one in near})
        (given,) = self.values_of(self.candidate, node.outputs[:1]).values() if near else (np.zeros(0),)
        fits = [(one, channel_fit(given, values[one.outputs[0]])) for one in near]
        found = [(float(np.abs(fit[0] - 1).max()), one, *fit) for one, fit in fits if fit is not None]
        for far, one, factors, added in sorted(found, key=lambda each: each[0])[:1]:
            times = "" if far <= CLOSE else f" times a number ({number(factors.min())} to {number(factors.max())})"
            words = f"each channel of its result is that of {one}{times}, plus a number"
            if np.ptp(factors) > CLOSE or (far <= CLOSE and np.abs(added).max() > CLOSE * np.abs(given).max()):
                yield one.key, f"{words} ({number(added.min())} to {number(added.max())})"

    def _multiples(self, node: ComparedNode) -> Iterator[Cause]:
        """Say so if what a node gives is a multiple of results that only the reference has, the nearest first."""
        if (value := self.own.get(node.outputs[0])) is None:
            return
        names = [name for name, (_, apart) in self.back.items() if apart > self.limit]
        factors = [(factor_of(value, self.known[name], self.limit), name) for name in names]  # constants may be rounded
        near = [(factor, name) for factor, name in factors if factor is not None and factor > 0]
        for factor, name in sorted(near, key=lambda one: abs(np.log(one[0]))):
            giver = self.reference.makers.get(name)
            yield from (self._of_number(*found) for found in (other_number(giver, node, factor) if giver else ()))
            yield from scaled(value, self.known[name], self.alike)


def _found(node: ComparedNode, name: Name, statement: str, there: str = "") -> InspectionFinding:
    """Return a finding that the file is to blame for, with what happened, and the operator there that it stands for."""
    cause = Mechanism(name, WORDS[name], (statement.rstrip("."),))
    return InspectionFinding.at(node, "structure", "file", statement, counterpart=there, mechanism=cause)


def _named(node: ComparedNode) -> str:
    return f"{node.key} ({node.source})" if node.source else node.key
