"""What is said of the node at which a program first parts from what is right, and who is to blame."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice, product

import numpy as np

from kokoro_nb.inspection.compared_constants import (
    ROUNDED,
    called,
    changed_parameters,
    differing,
    foreign_constants,
    largest_change,
    lost_constants,
    misquantised_weights,
    other_number,
)
from kokoro_nb.inspection.compared_program import ComparedNode
from kokoro_nb.inspection.compared_values import ValueSketch, factor_of, nearest, scaled
from kokoro_nb.inspection.judged_run import InspectionFinding
from kokoro_nb.inspection.paired_values import APART, EXACT, OTHER, REGROUPED, REPLACED, SAME, PairedValues, plain_name
from kokoro_nb.inspection.value_reasons import channel_factors, constants_in_place, explained_by_rules
from kokoro_nb.inspection.value_types import Value
from kokoro_nb.locate.culprit import Mechanism, Name
from kokoro_nb.markup import number

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
        compared = any(name in self.own for name in self.candidate.outputs)
        apart = f"differ by at most {number(self.outputs_apart)} of their root mean square (limit {number(OTHER)})"
        note = (
            f"{count:,} of {len(self.own):,} values of {self.candidate.label} are in {self.reference.label} too; its "
            f"outputs {apart if compared else 'have no definition here, and were not computed in float64'}."
        )
        mine, theirs = len(self.candidate.outputs), f"{self.reference.label} {len(self.reference.outputs)}"
        if mine != len(self.reference.outputs):
            note += f" It has {mine} outputs and new states, {theirs}: the last are not compared."
        changed = [f"{_called(one)}, of which {how}" for one, _, how in islice(self._changed(self.candidate.nodes), 3)]
        return f"{note} What is not that of its counterpart: {'; '.join(changed)}." if changed else note

    @property
    def finding(self) -> InspectionFinding | None:
        """The first node of `candidate` whose result the reference does not have although it has its input.

        None if every result of `candidate` that matters is in the reference.
        """
        drawn = next((one for one in self.candidate.nodes if one.key == self.candidate.drawing), None)
        if drawn is not None:
            words = f"{_called(drawn)} draws at random, and nothing in {self.reference.label} does"
            return _found(drawn, "operator lowered as another", f"{words}.", ())
        rounds, apart, paired = any(one.rounds for one in self.candidate.nodes), self.outputs_apart, self
        begun = filter(None, (next(self.parting(), None), next(self.replaced(), None)))
        node = next(iter(sorted(begun, key=lambda one: one.index)), None)
        for changed, right in changed_parameters(self.reference, self.candidate):
            if self.differs(changed.outputs, right.outputs) > SAME and (node is None or changed.index < node.index):
                proof = [f"Its counterpart there, which reads the same constants but for this, is {_named(right)}."]
                return replace(self._stated(changed, list(differing(right, changed)), proof), counterpart=right.key)
        for changed, right, words in misquantised_weights(self.reference, self.candidate):
            if node is None or changed.index < node.index:
                part = f"{_called(changed)} is where the file parts from {self.reference.label}: {words}"
                return replace(_found(changed, "changed constant", f"{part}.", ()), counterpart=right.key)
        if node is None and self.exact:
            paired = replace(self.held_to(EXACT), limit=EXACT)
            node = next(paired.parting(), None)
        elif node is None and rounds and not apart <= OTHER:
            exactly = {name: (other, self.differs([name], [other])) for name, (other, _) in self.pairs.items() if other}
            paired = replace(self, limit=REPLACED, pairs=exactly)
            node = next(paired.parting(), None)
        if node is None and not apart <= (APART if self.exact else OTHER):
            node = None if rounds else next(paired.unlike(), None)
            if node is None:
                words = f"The outputs differ by {number(apart)} of the root mean square from those of"
                words = f"{words} {self.reference.label}, and no node explains it."
                return InspectionFinding("outputs", "unknown", words)
        if node is None:
            return None
        for one, twin, words in paired._changed(paired._before(node)):
            if "attribute" in words and paired.differs(one.outputs, twin.outputs) > paired.limit:
                proof = [f"Its counterpart there, which reads the same, is {_named(twin)}."]
                return replace(paired._stated(one, list(differing(twin, one)), proof), counterpart=twin.key)
        found = paired.at(node)
        there = paired.place(found.key) if found.index < node.index else ""  # what reorders is before what shows it
        return replace(found, counterpart=found.counterpart or there or paired.counterpart(node))

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
                words = f"{_called(node)} has no definition here, and {words}"
                return _found(node, "operator lowered as another", f"{words} in {self.reference.label}.", ())
        for mine, other in ((mine, other) for mine, other in lacking.items() if other in self.known):
            apart = ValueSketch.of(np.asarray(outputs[mine], np.float64)).differs(self.known[other].first)
            if apart > OTHER:
                words = f"The output '{mine}' is {number(apart)} of the root mean square from that of"
                words = f"{words} {self.reference.label} (limit {number(OTHER)}); what gives it has no definition here"
                if not undefined:
                    return InspectionFinding("outputs", "unknown", f"{words}.")
                found = InspectionFinding.at(undefined[0], "outputs", "unknown", f"{words}: {_called(undefined[0])}.")
                return replace(found, counterpart=self.counterpart(undefined[0]))
        return None

    def _rewired(self, node: ComparedNode, other: ComparedNode) -> list[tuple[Name, str]]:
        """Say which input of its counterpart neither a node reads nor those that go on from it.

        Else, which values it reads in place of those that its counterpart reads, or in another order.
        """
        mine = set().union(*(self.paired_reads(one) for one in self._region(node)))
        read = (one for one in other.reads if one in self.first and not self.is_fixed(one))
        words = [f"it does not read '{one}', as {other.key} there does" for one in read if self.first[one] not in mine]
        pairs = [self.pairs.get(one, ("", np.inf)) for one in node.reads]
        given = [self.first[there] if apart <= self.limit else "" for there, apart in pairs]
        wanted = [self.first.get(one, "") for one in other.reads]
        held, there = ([one is None for one in each.constants] for each in (node, other))
        if _is_alike(other, node) and all(given) and all(wanted):
            text = f"what is {', '.join(there for there, _ in pairs)} there for {', '.join(other.reads)}"
            places = node.operator == other.operator and len(held) == len(there)  # of one format
            if sorted(given) == sorted(wanted) and (given != wanted or (places and held != there)):
                words.append(f"its inputs are exchanged, {text}")
            elif given != wanted and len(given) == len(wanted):
                words.append(f"it reads another value, {text}")
        return [("operator lowered as another", one) for one in words[:1]]

    def at(self, node: ComparedNode) -> InspectionFinding:
        """Say how a node differs from what reads the same in the reference."""
        others = self.counterparts(node)
        proof = ["Both were computed in float64, and the node's input is in both."]
        if others and others[0].operator == node.operator:
            other = others[0]
            proof.append(f"Its counterpart there is {_named(other)}.")
            how, rewired = list(differing(other, node)), self._rewired(node, other)
            if rewired and not how and (turned := self._turned(node, other, proof)) is not None:
                return turned
            how += [*rewired, *constants_in_place(self, node, other)]
            for one, right in zip(node.outputs, other.outputs, strict=False):
                if one in self.own and right in self.known:
                    how += [("changed scale", words) for words in scaled(self.own[one], self.known[right], self.alike)]
            mine, theirs = (len(one.reads) + sum(each is not None for each in one.constants) for one in (node, other))
            how = how or self._as_output(node)
            if not how and mine != theirs:
                how = [("operator lowered as another", f"it has {mine} inputs in place of {theirs}")]
            return self._stated(node, how, proof)
        return self._elsewhere(node, others, proof)

    def _stated(self, node: ComparedNode, how: list[tuple[Name, str]], proof: list[str]) -> InspectionFinding:
        where = f"{_called(node)} is the first divergence from {self.reference.label}"
        if how:
            return _found(node, how[0][0], f"{where}: {'; '.join(words for _, words in how[:FEW])}.", proof)
        statement = f"{where}, though operator, constants and attributes are the same."
        for one, there, words in self._changed(self._before(node)):
            part = f"{_called(one)} is where the file parts from {self.reference.label}: {words}"
            found = _found(one, "changed constant", f"{part}; {node.key} is the first that shows it.", proof)
            return replace(found, counterpart=there.key)
        apart = float(np.max([self.pairs[one][1] for one in node.reads if one in self.pairs], initial=0.0))
        if apart > SAME and (origin := next(filter(self._begins, self._before(node)), None)) is not None:
            return self.at(origin)
        if apart > SAME:
            words = f"Its input is {number(apart)} of its root mean square apart: it makes that large."
            found = InspectionFinding.at(node, "precision", "precision", statement, *proof, words)
            return replace(found, mechanism=Mechanism("too few bits", WORDS["too few bits"], (words,)))
        unseen = [f"It reads '{name}', integers that were not compared." for name in node.reads if name not in self.own]
        unknown = InspectionFinding.at(node, "structure", "unknown", statement, *proof, *unseen)
        return self._turned(node, next(iter(self.counterparts(node)), None), proof) or unknown

    def _turned(self, node: ComparedNode, other: ComparedNode | None, proof: list[str]) -> InspectionFinding | None:
        """Name the node that puts elements in another order, if one before `node` does: see `PairedValues.turned`."""
        if (found := self.turned(node, other, rewired=other is not None and bool(self._rewired(node, other)))) is None:
            return None
        one, there = found
        giver = next((each.key for each in self.reference.nodes if there in each.outputs), there)
        words = f"{_called(one)} gives the elements of {giver} of {self.reference.label} in another order"
        words = f"{words}; {node.key} is the first that shows it."
        return replace(_found(one, "changed layout or shift", words, proof), counterpart=giver)

    def _as_output(self, node: ComparedNode) -> list[tuple[Name, str]]:
        """Say what an output of the file is there: the same elements in another order, or what an operator reads."""
        ends = {one: self.own[one] for one in node.outputs if one in self.candidate.outputs and one in self.own}
        for name, (there, apart) in nearest(ends, self.known).items():
            if not apart <= self.limit:
                continue
            if not self._same_order(name, there):
                return [("changed layout or shift", f"it gives the elements of {there} there in another order")]
            others = [one for one in self.reference.outputs if self.first.get(one) == self.first[there]]
            if others:
                return [("operator lowered as another", f"it gives what is the output '{others[0]}' there")]
            behind = [one for one in self.reference.nodes if there in one.reads]
            if behind:
                return [("operator lowered as another", f"the file ends here, and has no {_called(behind[0])}")]
        return []

    def _before(self, node: ComparedNode) -> list[ComparedNode]:
        """Return the nodes before this one that what it reads is made by."""
        needed, before = set(node.reads), list[ComparedNode]()
        for one in reversed(self.candidate.nodes[: node.index]):
            if needed & set(one.outputs):
                needed |= set(one.reads)
                before.insert(0, one)
        return before

    def _changed(self, nodes: Sequence[ComparedNode]) -> Iterator[tuple[ComparedNode, ComparedNode, str]]:
        """Yield those with other constants or attributes than all that reads the same there, one of these, and which.

        Not those of which rounding to 4 bits may make such constants.
        """
        for node in nodes:
            others = {one: list(differing(one, node)) for one in self.counterparts(node, whole=True)}
            for one, how in [*others.items()][:1] if all(others.values()) else ():
                if largest_change(one, node) > ROUNDED or any("attribute" in words for _, words in how):
                    yield node, one, "; ".join(words for _, words in how)

    def _elsewhere(self, node: ComparedNode, others: list[ComparedNode], proof: list[str]) -> InspectionFinding:
        """Say what parts where the two are written in other operators, between results that both have."""
        region = self._region(node)
        other = next((one for one in others if self.is_missing(one)), None)
        where = f"{_called(node)} is the first divergence from {self.reference.label}"
        if (turned := self._turned(node, next(iter(others), None), proof)) is not None:
            return turned
        if other is None and not node.reads:
            own = {one: self.own[one] for one in node.outputs if one in self.own}
            pairs = nearest(own, self._constants(self.reference)).items()
            like = ((one, near, apart) for one, (near, apart) in pairs if SAME < apart < np.inf)
            each = (f"; '{one}' is {number(apart)} of the root mean square off '{near}'" for one, near, apart in like)
            words = next(each, "")
            return _found(node, "changed constant", f"{where}: it is made of constants alone{words}.", proof)
        if other is None:
            if said := self._as_output(node):
                return self._stated(node, said, proof)
            lacked = next((f"; the first operator there that the file lacks is {one}" for one in self.lacked), "")
            words = f"{where}: no {node.operator} there reads the same{lacked}."
            return self._other_number(node, proof) or _found(node, "operator lowered as another", words, proof)
        proof.append(f"What reads the same there and gives something else is {_named(other)}.")
        if node.rounds or plain_name(node.operator) == "dequantizelinear":
            return _found(node, "quantisation range", f"{where}: the range of its integers cuts or coarsens it.", proof)
        given = self.paired_reads(node)
        givers = [one for one in self.reference.nodes if given & set(one.outputs)]  # which may add a bias, too
        added = [one for one in region if plain_name(one.operator) in REGROUPED]
        for one, there in (*product(region, [other]), *product(added, givers)):
            how = list(foreign_constants(there, one, region, self.reference.nodes))
            if how:
                part = f"{_called(one)} is where the file parts from {self.reference.label}"
                return _found(one, "changed constant", f"{part}: {'; '.join(how)}.", proof)
        readers = [one for one in self.reference.nodes if {*other.outputs} & {*one.reads}]
        behind = next((one for one in readers if _is_alike(one, node)), None)
        if folded := list(constants_in_place(self, node, other)):
            return self._stated(node, folded, proof)
        for one, multiple in ((one, self._multiple(one)) for one in region):
            if multiple is not None:
                return self._stated(one, [multiple], proof)
        if (numbered := self._other_number(node, proof)) is not None:
            return numbered
        for there in (one for one in (other, behind) if one is not None and _is_alike(one, node)):
            if (cause := explained_by_rules(self, node, there)) is not None:
                words = f"{where}: it computes something else than {_called(there)} there: {cause}"
                return replace(_found(node, "operator lowered as another", f"{words}.", proof), mechanism=cause)
        if (scales := channel_factors(self, node)) is not None:
            part = f"{_called(node)} is where the file parts from {self.reference.label}: {scales[1]}"
            return replace(_found(node, "changed constant", f"{part}.", proof), counterpart=scales[0])
        kinds = {plain_name(one.operator) for one in self._before(node) if self.paired_reads(one) & self.read_by(other)}
        if behind is not None and plain_name(other.operator) not in kinds | {plain_name(node.operator)}:
            words = f"the file has no {_called(other)}, which is before {behind.key} there"
            pads, pad = node.attributes.get("pads", []), other.attributes.get("pad", [])
            if len(pads) == len(pad) == 2 and list(pads) != list(pad):
                words = f"its pads are {pads} in place of {pad} of {_called(other)} there"
            return _found(node, "operator lowered as another", f"{where}: {words}.", proof)
        read = next((self.pairs[one][0] for one in node.reads if one in self.pairs), "")
        more = read in self.known and node.outputs[0] in self.own and any(_is_alike(other, one) for one in region)
        for factor in scaled(self.own[node.outputs[0]], self.known[read], self.alike) if more else ():
            words = factor.replace("the reference's", "its input's")
            return _found(
                node, "changed scale", f"{where}: no {node.operator} there reads the same, and {words}.", proof
            )
        also = [*differing(other, node), *lost_constants(other, region), *self._rewired(node, other)]
        words = "".join(f"; {words}" for _, words in also[:FEW])
        next_one = next((one for one in region[1:2] if _is_alike(other, one)), None)
        if next_one is not None and not any(_is_alike(one, node) for one in others):
            words = f"it stands before {next_one.key}, and no {node.operator} stands before {_called(other)} there"
            return _found(node, "operator lowered as another", f"{where}: {words}.", proof)
        statement = f"{where}: it computes something else than {_called(other)} there{words}."
        return _found(node, "operator lowered as another", statement, proof)

    def _other_number(self, node: ComparedNode, proof: list[str]) -> InspectionFinding | None:
        """Name the first node, this one or one before it, with another number than its counterpart, and another result.

        Its counterpart is of the same kind and gives what it gives, else reads what it reads.
        """
        for one in [*self._before(node), node]:
            read, pairs = self.paired_reads(one), [self.pairs[name] for name in one.outputs if name in self.pairs]
            given = {there for there, _ in pairs}
            if any(apart <= SAME and there not in read for there, apart in pairs):
                continue  # it is there, and no copy of what it reads
            like = [each for each in self.reference.nodes if _is_alike(each, one)]
            near = [each for each in like if given & {*each.outputs}]
            for there in (near or [each for each in like if read & self.read_by(each)])[:1]:
                for found in other_number(there, one):
                    cause, words = self._of_number(*found)
                    part = f"{_called(one)} is where the file parts from {self.reference.label}: {words}"
                    shown = "" if one is node else f"; {node.key} is the first that shows it"
                    return replace(_found(one, cause, f"{part}{shown}.", proof), counterpart=there.key)
        return None

    def _of_number(self, there: str, right: float, here: str, value: float) -> tuple[Name, str]:
        """Say that a number is another one, and whether it is the length that an open axis had."""
        words = f"the constant '{here}' is {number(value)} in place of {number(right)}{called(there, here)}"
        for name, axis in self.candidate.open_axes:
            if right == self.inputs[0][name].shape[axis]:
                return "frozen length", f"{words}, the length of axis {axis} of '{name}', which is open"
        return "changed constant", words

    def _multiple(self, node: ComparedNode) -> tuple[Name, str] | None:
        """Say so if what a node gives is a multiple of a result that only the reference has: the nearest such."""
        value = self.own.get(node.outputs[0])
        if value is None:
            return None
        names = [name for name, (_, apart) in self.back.items() if apart > self.limit]
        factors = [(factor_of(value, self.known[name], self.limit), name) for name in names]  # constants may be rounded
        near = [(factor, name) for factor, name in factors if factor is not None and factor > 0]
        for factor, name in sorted(near, key=lambda one: abs(np.log(one[0]))):
            givers = (one for one in self.reference.nodes if name in one.outputs)
            for found in (found for one in givers for found in other_number(one, node, factor)):
                return self._of_number(*found)
            if factor_of(value, self.known[name], self.alike) is not None:
                return "changed scale", f"its result is exactly {number(factor)} times the reference's"
        return None

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


def _called(node: ComparedNode) -> str:
    return f"{node.key} ({node.operator})"


def _named(node: ComparedNode) -> str:
    return f"{node.key} ({node.source})" if node.source else node.key


def _is_alike(other: ComparedNode, node: ComparedNode) -> bool:
    return plain_name(other.operator) == plain_name(node.operator)
