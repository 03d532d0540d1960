"""Two programs on the same inputs: values are paired by what they are, and what they say of where the pairs end.

Both are computed in float64 by their own definitions, so that no runtime is in between. Names do not count, nor does
the order of the elements: a value is known by its size and by what its elements are, sorted. Programs that are written
in other operators (a linear layer as a product and a sum) part and come together again; where they do, nothing is
wrong. They do not where an output is another one, or where something forgets what was different: a clip, a condition.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product
from typing import TypeVar

import numpy as np

from kokoro_nb.errors import InputError
from kokoro_nb.inspection.compared_constants import LOWERED, Cause, changed, differing, same_constants, same_weight
from kokoro_nb.inspection.compared_program import ComparedNode, ComparedProgram
from kokoro_nb.inspection.compared_values import ValueSketch, factor_of, is_permuted, nearest, sketches, with_bias
from kokoro_nb.inspection.input_maker import varied
from kokoro_nb.inspection.value_types import Arrays, Value
from kokoro_nb.locate.culprit import UNKNOWN, Mechanism, likeliest
from kokoro_nb.locate.local_error import wrong_beyond
from kokoro_nb.locate.mechanism_rules import mechanisms
from kokoro_nb.locate.rule_evidence import Evidence, call_of

_Paired = TypeVar("_Paired", bound="PairedValues")  # Python 3.10 has no Self
Pairs = Mapping[str, tuple[str, float]]  # of each value the nearest in the other program, and how far that is
APART = 0.01  # of its root mean square: what rounding of constants to 16 bits does to a value is below it
OTHER = 0.05  # of its root mean square, element by element: what rounding of constants to 8 bits does is below it
COARSE = 2.0**-8  # of a constant's root mean square: more than what rounding it to 16 bits does
REPLACED = 0.25  # of a constant's peak: what rounding to 4 bits does to it (1/14) is below it
EXACT = 2e-5  # of its root mean square: more than another order of summation or a number of float32 makes of a value
FAR = 1e-4  # of how far a result is apart: far more than what an operator makes of rounded constants before it
EXACTLY = 1e-9  # of its root mean square: two results in float64 of constants of the same bits
ORDERED = 5.0  # times the limit of a pair, up to which its elements are in the same order
MOST = 64  # values whose order is looked at
CLOSE = 1e-3  # of the peak: what is nearer is not called wrong, nor another value times a number
TIMES = 20.0  # how much further apart than its inputs a result must be
SAME = 1e-6  # of the root mean square: two files in float64 that mean the same
_FORGETTING = "clip where max min relu sign floor ceil round cast greater less equal argmax"
FORGETTING = frozenset(_FORGETTING.split())
"""Operators that give the same for different values."""
REBUILDING = frozenset(("dequantizelinear", "cast"))
"""Operators that make the floats of a constant from what was rounded."""
REGROUPED = frozenset(("mul", "add", "sub", "div", "matmul"))
"""Operators of which a chain may be written in another order: results on the way differ, and nothing is wrong."""


@dataclass(frozen=True, eq=False)
class PairedValues:
    """Two programs whose values are paired: each value's nearest in the other one."""

    reference: ComparedProgram
    candidate: ComparedProgram
    known: Mapping[str, ValueSketch]
    own: Mapping[str, ValueSketch]
    pairs: Pairs
    back: Pairs
    first: Mapping[str, str]
    inputs: Sequence[Arrays]
    exact: bool  # whether the constants of both are of the same bits, and both or none round to integers
    limit: float = APART

    @classmethod
    def of(cls: type[_Paired], reference: ComparedProgram, candidate: ComparedProgram, given: Arrays) -> _Paired:
        """Compute two programs in float64 and pair their values; none where the candidate draws at random.

        Parameters
        ----------
        reference, candidate : ComparedProgram
            The programs.
        given : mapping
            Inputs of `candidate`. Two variations are computed as well, so that no two values are alike by chance.

        Raises
        ------
        InputError
            If the reference draws at random, or they take different inputs.
        """
        if reference.drawing:
            words = "draws at random, so that two files cannot be compared; give the noise as an input"
            raise InputError(f"{reference.drawing} {words}.")
        inputs = [given, varied(given, 1), varied(given, 2)]
        exact = candidate.rounds == reference.rounds and same_constants(reference, candidate)
        if candidate.drawing:
            return cls(reference, candidate, {}, {}, {}, {}, {}, inputs, exact)

        def computed() -> Iterator[dict[str, ValueSketch]]:
            yield sketches(reference, [reference.given(one) for one in inputs])
            yield sketches(candidate, inputs)

        try:
            known, own = computed()
        except (IndexError, RuntimeError, ValueError):  # other numbers than the given ones may be out of range
            inputs = inputs[:1]
            known, own = computed()
        added = dict(with_bias(reference, candidate, known, own, EXACT if exact else APART))
        own |= {name: known[there] for name, (there, _) in added.items()}
        first = {name: near for name, (near, _) in nearest(known, known).items()}
        pairs, back = {**nearest(own, known), **added}, nearest(known, own)
        return cls(reference, candidate, known, own, pairs, back, first, inputs, exact).held_to(OTHER)

    def held_to(self: _Paired, limit: float) -> _Paired:
        """Return it with outputs that differ by more than a limit paired in order, and not with one equal by chance."""
        ends = zip(self.candidate.outputs, self.reference.outputs, strict=False)
        both = [(one, other) for one, other in ends if one in self.own and other in self.known]
        pairs = {one: (other, self.differs([one], [other])) for one, other in both}
        return replace(self, pairs={**self.pairs, **{one: pair for one, pair in pairs.items() if not pair[1] <= limit}})

    @property
    def alike(self) -> float:
        """Up to which share of its peak a value is another one, or that times a number."""
        return float(np.minimum(self.limit, CLOSE))

    @property
    def unrelated(self) -> bool:
        """Whether the candidate, if not of integers, shares neither values nor constants and gives something else."""
        made = [self.pairs[one][1] for one in self.candidate.makers.keys() & set(self.pairs)]
        if self.candidate.rounds or self.outputs_apart <= REPLACED or any(apart <= APART for apart in made):
            return False
        mine, theirs = (self._constants(one) for one in (self.candidate, self.reference))
        return bool(mine) and not any(apart <= APART for _, apart in nearest(mine, theirs).values())

    def place(self, key: str) -> str:
        """Return the operator of the reference that gives what a node gives, or reads what it reads; empty if none."""
        for node in (one for one in self.candidate.nodes if one.key == key):
            near = (self.pairs[name] for name in node.outputs if name in self.pairs)
            same = [self.reference.makers.get(other) for other, apart in near if apart <= APART]
            return next((one.key for one in (*same, *self.counterparts(node)) if one is not None), "")
        return ""

    def parting(self) -> Iterator[ComparedNode]:
        """Yield the nodes that part for good: first those that an output shows, then those that something masks.

        A condition that is masked may be written otherwise there: it parts only if it reads the same there.
        """
        begun = [node for node in self.candidate.nodes if self._begins(node)]
        shown = self.behind(self.candidate.outputs, self.pairs)
        yield from (node for node in begun if node in shown)
        if self.limit != APART:
            return
        masked = self.behind(self._forgotten(), self.pairs)
        for node in begun:
            hidden = node in masked and not self._is_flags(node.outputs[0])
            like = [one.operator for one in self.counterparts(node, whole=True)]
            if hidden or (node.kind not in REGROUPED and node.operator in like):
                yield node

    @cached_property
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
            if limits.keys() >= set(node.reads) and node.held:
                limits |= dict.fromkeys(node.outputs, REPLACED if node.kind in REBUILDING else APART)
        made = {name: self.own[name] for name in limits.keys() & set(self.own)}
        folded = nearest(made, self._constants(self.reference))
        alike = {name: (other, 0.0) for name, (other, apart) in folded.items() if apart <= limits[name]}
        yield from self.behind(self.candidate.outputs, {**self.pairs, **alike})

    @cached_property
    def lacked(self) -> ComparedNode | None:
        """The first operator there that the candidate lacks and an output shows; none whose result is fixed."""
        there = replace(self, reference=self.candidate, known=self.own, pairs=self.back)
        lacking = replace(there, candidate=self.reference, own=self.known, back=self.pairs).unlike()
        return next((one for one in lacking if self.is_missing(one)), None)

    def behind(self, ends: Iterable[str], pairs: Pairs | None = None) -> list[ComparedNode]:
        """Return the nodes, in order, of which these values are made: given pairs, through unpaired values alone."""
        found, wanted = list[ComparedNode](), set(ends)
        for node in reversed(self.candidate.nodes):
            apart = [np.inf if pairs is None else pairs.get(one, ("", 0.0))[1] for one in node.outputs if one in wanted]
            if any(one > self.limit for one in apart):
                found.insert(0, node)
                wanted.update(node.reads)
        return found

    def _constants(self, program: ComparedProgram) -> dict[str, ValueSketch]:
        """Return what the floats among the constants of a program are known by, the same on all sets of inputs."""
        held = dict(one for node in program.nodes for one in node.held)
        floats = {name: one.astype(np.float64) for name, one in held.items() if one.dtype.kind == "f" and one.size}
        return {name: ValueSketch.joined([ValueSketch.of(one)] * len(self.inputs)) for name, one in floats.items()}

    def differs(self, names: Sequence[str], others: Sequence[str]) -> float:
        """Return how far values are from others, element by element; infinite where one is not known."""
        pairs = [(self.own.get(one), self.known.get(other)) for one, other in zip(names, others, strict=False)]
        apart = [float("inf") if a is None or b is None else a.differs(b) for a, b in pairs]
        return float(np.max(apart, initial=0.0))

    def _forgotten(self) -> Iterator[str]:
        """Yield what is read by an operator that forgets differences, where the reference has it in the same place."""
        for node in self.candidate.nodes:
            twins = (self.pairs[name] for name in node.outputs if name in self.pairs)
            there = (self.reference.makers.get(twin) for twin, apart in twins if apart <= self.limit)
            if node.kind in FORGETTING and any(one is not None and one.kind == node.kind for one in there):
                yield from node.reads

    def _begins(self, node: ComparedNode) -> bool:
        """Return whether the reference has the inputs of a node and not its result."""
        near = {name: self.pairs[name][1] for name in node.reads if name in self.pairs}
        # flags that the reference has not may say the opposite there
        read = [apart for name, apart in near.items() if apart <= self.limit or not self._is_flags(name)]
        given = [self.pairs[name][1] for name in node.outputs if name in self.pairs][:1]
        same = np.clip(FAR * np.sum(given), EXACTLY, SAME) if self.limit == EXACT else self.limit
        coarse = node.rounds and self.limit != REPLACED and not self.reference.rounds  # of a file that is not quantised
        if coarse or not given or not read or np.max(read) > same:
            return False  # of what is made of integers alone it is not known whether they are the same
        far = given[0] > np.maximum(self.limit, np.minimum(TIMES * np.max(read, initial=SAME), REPLACED))
        return bool(far) and (given[0] > OTHER or not self.is_rounded(node))

    def _is_flags(self, name: str) -> bool:
        """Return whether all that a value holds is 0 or 1."""
        return name in self.own and bool(np.isin(self.own[name].points, (0, 1)).all())

    def is_rounded(self, node: ComparedNode) -> bool:
        """Return whether a node has a constant of the reference rounded to about 8 bits."""
        return any(name in self._rounded for name, _ in node.held)

    @cached_property
    def _rounded(self) -> set[str]:
        """Names of the candidate's constants that are the reference's rounded to about 8 bits, and no multiples."""
        mine, theirs = self._constants(self.candidate), {**self.known, **self._constants(self.reference)}
        near = [(name, other) for name, (other, apart) in nearest(mine, theirs).items() if COARSE < apart <= OTHER]
        pairs = [(name, mine[name], theirs[other]) for name, other in near]
        return {name for name, one, right in pairs if one.differs(right) <= OTHER and factor_of(one, right) is None}

    def turned(self, node: ComparedNode, others: Sequence[ComparedNode]) -> Iterator[tuple[ComparedNode, str]]:
        """Yield what gives elements that `node` is made from in an order that they have nowhere in the reference.

        Axes may be permuted and mean the same. It is the first such node, with the value that has these elements there;
        else the one that gives `node` what the first of `others`, its counterparts, is given in another order. Of a
        node that is `rewired` it may be before a part that the reference has, and reads in another place. One of
        another kind stands for any of them: none of these may be given it in that order.
        """
        makers, there_read = self.candidate.makers, others[0].reads if others else ()
        rewired = bool(others) and bool(self.rewired(node, others[0]))
        twin = bool(others) and (others[0].kind == node.kind or same_weight(others[0], node))
        given = [name for one in (others[:1] if twin else others) for name in one.reads if name in self.known]
        doubted: dict[str, list[str]] = {}  # with all values of the reference that have the same elements
        pending, seen = list(node.reads), set[str]()
        while pending and len(doubted) < MOST:
            name = pending.pop(0)
            near, apart = self.pairs.get(name, ("", np.inf))
            if name not in makers or name in seen or apart > self.limit:
                continue
            seen.add(name)
            like = [one for one, value in self.known.items() if self.own[name].distance(value) <= self.limit]
            ordered = any(self._same_order(name, one) for one in (near, *like))
            if not ordered:
                doubted[name] = like
            if not ordered or (rewired and near not in there_read):
                pending += makers[name].reads
        pairs = zip(node.reads, there_read, strict=False)
        reads = [(name, there) for name, there in pairs if name in {*makers} & {*self.own} and there in self.known]
        wanted = {one for like in doubted.values() for one in like} | {there for _, there in reads}
        own, known = (self.values_of(self.candidate, {*doubted, *node.reads}), self.values_of(self.reference, wanted))
        limit = ORDERED * self.limit
        turned = [one for one, like in doubted.items() if not any(is_permuted(own[one], known[k], limit) for k in like)]
        yield from sorted(((makers[one], self.pairs[one][0]) for one in turned), key=lambda pair: pair[0].index)
        for name, there in reads:
            alike = own[name].shape == known[there].shape and self.own[name].distance(self.known[there]) <= self.limit
            if alike and not any(self._same_order(name, one) for one in given):
                yield makers[name], there

    def rewired(self, node: ComparedNode, other: ComparedNode) -> list[Cause]:
        """Say which input of its counterpart neither a node reads nor those that go on from it.

        Else, which values it reads in place of those that its counterpart reads, or in another order.
        """
        mine = set().union(*(self.paired_reads(one) for one in self.region(node)))
        read = (one for one in other.reads if one in self.first and not self.is_fixed(one))
        words = [f"it does not read '{one}', as {other.key} there does" for one in read if self.first[one] not in mine]
        pairs = [self.pairs.get(one, ("", np.inf)) for one in node.reads]
        given = [self.first[there] if apart <= self.limit else "" for there, apart in pairs]
        wanted = [self.first.get(one, "") for one in other.reads]
        held, there = ([one is None for one in each.constants] for each in (node, other))
        if other.kind == node.kind and all(given) and all(wanted):
            text = f"what is {', '.join(there for there, _ in pairs)} there for {', '.join(other.reads)}"
            places = node.operator == other.operator and len(held) == len(there)  # of one format
            if sorted(given) == sorted(wanted) and (given != wanted or (places and held != there)):
                words.append(f"its inputs are exchanged, {text}")
            elif given != wanted and len(given) == len(wanted):
                words.append(f"it reads another value, {text}")
        return [(LOWERED, one) for one in words[:1]]

    def region(self, node: ComparedNode) -> list[ComparedNode]:
        """Return the node and those after it that read its unpaired results, a few nodes far."""
        found, values = [node], set(node.outputs)
        for one in self.candidate.nodes[node.index + 1 :]:
            if values & set(one.reads) and len(found) < 12:
                found.append(one)
                values |= set(one.outputs)
        return found

    def _same_order(self, name: str, there: str) -> bool:
        """Return whether two values have the same elements in the same order, whatever their shapes."""
        return self.own[name].differs(self.known[there]) <= ORDERED * self.limit

    def values_of(self, program: ComparedProgram, names: Collection[str]) -> dict[str, np.ndarray]:
        """Return these values of a program on the first inputs, floats in float64."""
        given = program.given(self.inputs[0])
        found = {name: np.asarray(value, np.float64) for name, value in given.items() if name in names}

        def keep(name: str, value: Value) -> None:
            if name in names:
                found[name] = np.array(value, np.float64)

        if {*names} - {*found}:
            program.compute(given, keep)
        return found

    @np.errstate(invalid="ignore")  # infinity less infinity
    def is_fixed(self, name: str) -> bool:
        """Return whether a value of the reference is the same on all inputs."""
        return not np.ptp(self.known[name].images.reshape(len(self.inputs), -1), axis=0).any()

    def counterparts(self, node: ComparedNode, whole: bool = False) -> list[ComparedNode]:
        """Return the nodes of the reference that read the same, those of the same operator first.

        With `whole`, those alone that are of the same kind and read the same and nothing else.
        """
        read = self.paired_reads(node)
        if whole:
            like = [one for one in self.reference.nodes if one.kind == node.kind]
            return [one for one in like if read and read == self.read_by(one)]
        found = []
        for k, one in enumerate(self.reference.nodes):
            common, same = read & self.read_by(one), same_weight(one, node)  # which sorts both
            alike, missing = one.operator == node.operator, self.is_missing(one)
            moved = alike and missing and len(one.reads) == len(node.reads) and not any(differing(one, node))
            if common or same or moved:
                found.append((not same, not alike, not moved, not missing, -len(common), k))
        return [self.reference.nodes[k] for *_, k in sorted(found)]

    def paired_reads(self, node: ComparedNode) -> set[str]:
        """Return what a node of the candidate reads and the reference has, by the names there."""
        pairs = (self.pairs[name] for name in node.reads if name in self.pairs)
        return {other for other, apart in pairs if apart <= self.limit}

    def read_by(self, node: ComparedNode) -> set[str]:
        """Return what a node of the reference reads, each by the first value that is the same in another order."""
        return {self.first[name] for name in node.reads if name in self.first}

    def counterpart(self, node: ComparedNode) -> str:
        """Return the operator of the reference in whose place a node stands: the first that the candidate lacks."""
        return next((one.key for one in (self.lacked, *self.counterparts(node)) if one is not None), "")

    def is_missing(self, node: ComparedNode) -> bool:
        """Return whether the candidate has nothing like what a node of the reference makes of its inputs."""
        known = [name for name in node.outputs if name in self.back]
        return any(self.back[name][1] > self.limit and not self.is_fixed(name) for name in known)

    def explained_by_rules(self, nodes: Sequence[ComparedNode], other: ComparedNode) -> Iterator[Mechanism]:
        """Yield what the rules for an operator of a module say of the nodes of which one stands for it.

        Of several nodes, what computes all that one of them gives.
        """
        meaning, (name, *_) = self.reference.meaning, other.outputs
        size = self.known[name].size if name in self.known else -1
        near = [one.outputs[0] for one in nodes if len(one.outputs) == 1 and one.outputs[0] in self.own]
        near = [one for one in near if self.own[one].size == size]
        if meaning is None or not near:
            return
        values, own = self.values_of(self.reference, {*other.reads, name}), self.values_of(self.candidate, near)
        right, operator = values.pop(name), next(one for one in meaning.operators if one.name == name)
        call = call_of(meaning, name, self.reference.given(self.inputs[0]), values)
        for given in (own[one] for one in near if np.squeeze(own[one]).shape == np.squeeze(right).shape):
            error = wrong_beyond(operator, given.reshape(right.shape), right, self.alike)
            found = likeliest(mechanisms(Evidence(error, values, call)))
            exact = found.explained > 1 - CLOSE and found.name != "changed scale"  # as of any two, one far smaller
            if found is not UNKNOWN and (len(nodes) == 1 or exact):
                yield found

    def constants_in_place(self, node: ComparedNode, other: ComparedNode) -> Iterator[Cause]:
        """Say which constant of a node is another than what its counterpart reads, whatever the inputs are."""
        names = [one for one in other.reads if one in self.known and self.is_fixed(one)]
        values = self.values_of(self.reference, names)
        for name, (here, held) in product(names, node.held):
            if held.size == values[name].size:
                yield from changed(name, values[name].reshape(held.shape), here, held.astype(np.float64))
        for mine, theirs in zip(node.constants, other.constants, strict=False):
            if node.operator == other.operator and mine is not None and theirs is None:
                yield "changed constant", f"the constant '{mine[0]}' stands where a value is read there"
