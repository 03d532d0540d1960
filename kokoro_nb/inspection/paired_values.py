"""Two programs on the same inputs: values are paired by what they are, and the nodes at which the pairs end.

Both are computed in float64 by their own definitions, so that no runtime is in between. Names do not count, nor does
the order of the elements: a value is known by its size and by what its elements are, sorted. Programs that are written
in other operators (a linear layer as a product and a sum) part and come together again; where they do, nothing is
wrong. They do not where an output is another one, or where something forgets what was different: a clip, a condition.
"""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from typing import TypeVar

import numpy as np

from kokoro_nb.errors import InputError
from kokoro_nb.inspection.compared_constants import differing, largest_change, same_constants, same_weight
from kokoro_nb.inspection.compared_program import ComparedNode, ComparedProgram, by_name
from kokoro_nb.inspection.compared_values import ValueSketch, is_permuted, nearest, sketched_constants, sketches
from kokoro_nb.inspection.input_maker import varied
from kokoro_nb.inspection.value_types import Arrays, Value

_Paired = TypeVar("_Paired", bound="PairedValues")
APART = 0.01  # of its root mean square: what rounding of constants to 16 bits does to a value is below it
OTHER = 0.05  # of its root mean square, element by element: what rounding of constants to 8 bits does is below it
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
BIASED = frozenset(("linear", "addmm", "gemm"))  # products that add their bias
REGROUPED = frozenset(("mul", "add", "sub", "div", "matmul"))
"""Operators of which a chain may be written in another order: results on the way differ, and nothing is wrong."""


@dataclass(frozen=True, eq=False)
class PairedValues:
    """Two programs whose values are paired: each value's nearest in the other one."""

    reference: ComparedProgram
    candidate: ComparedProgram
    known: Mapping[str, ValueSketch]
    own: Mapping[str, ValueSketch]
    pairs: Mapping[str, tuple[str, float]]
    back: Mapping[str, tuple[str, float]]
    first: Mapping[str, str]
    inputs: Sequence[Arrays]
    exact: bool  # whether the constants of both are of the same bits
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
        inputs, exact = [given, varied(given, 1), varied(given, 2)], same_constants(reference, candidate)
        if candidate.drawing:
            return cls(reference, candidate, {}, {}, {}, {}, {}, inputs, exact)
        known = sketches(reference, [by_name(reference.inputs, one, reference.label) for one in inputs])
        own = sketches(candidate, inputs)
        own |= _with_bias(reference, candidate, known, own, EXACT if exact else APART)
        first = {name: near for name, (near, _) in nearest(known, known).items()}
        pairs, back = nearest(own, known), nearest(known, own)
        return cls(reference, candidate, known, own, pairs, back, first, inputs, exact).held_to(OTHER)

    def held_to(self: _Paired, limit: float) -> _Paired:
        """Return it with outputs that differ by more than a limit paired in order, and not with one equal by chance."""
        ends = [
            each for each in zip(self.candidate.outputs, self.reference.outputs, strict=False) if each[0] in self.own
        ]
        pairs = {one: (other, self.differs([one], [other])) for one, other in ends if other in self.known}
        return replace(self, pairs={**self.pairs, **{one: pair for one, pair in pairs.items() if not pair[1] <= limit}})

    @property
    def alike(self) -> float:
        """Up to which share of its peak a value is another one, or that times a number."""
        return float(np.minimum(self.limit, CLOSE))

    @property
    def unrelated(self) -> bool:
        """Whether the candidate has neither a value nor a constant of the reference, and gives something else.

        Of a file of integers that is not known.
        """
        if any(one.rounds for one in self.candidate.nodes):
            return False
        made = {name for node in self.candidate.nodes for name in node.outputs}
        if self.outputs_apart <= REPLACED or any(self.pairs[one][1] <= APART for one in made & set(self.pairs)):
            return False
        mine, theirs = self._constants(self.candidate), self._constants(self.reference)
        return bool(mine) and not any(apart <= APART for _, apart in nearest(mine, theirs).values())

    def place(self, key: str) -> str:
        """Return the operator of the reference that gives what a node gives, or reads what it reads; empty if none."""
        node = next((one for one in self.candidate.nodes if one.key == key), None)
        if node is None:
            return ""
        there = {name: one.key for one in self.reference.nodes for name in one.outputs}
        near = (self.pairs[name] for name in node.outputs if name in self.pairs)
        same = [there[other] for other, apart in near if apart <= APART and other in there]
        return same[0] if same else next((one.key for one in self.counterparts(node)), "")

    def parting(self) -> Iterator[ComparedNode]:
        """Yield the nodes that part for good: first those that an output shows, then those that something masks."""
        ahead = _unpaired_ahead(self.candidate, self.pairs, self.limit)
        ends = set(self.candidate.outputs)
        begun = [node for node in self.candidate.nodes if self._begins(node)]
        yield from (node for node in begun if ends & {name for one in node.outputs for name in ahead[one]})
        if self.limit != APART:
            return
        for node in begun:
            regrouped = plain_name(node.operator) in REGROUPED
            if self._is_forgotten(node, ahead) or (not regrouped and self.counterparts(node, whole=True)):
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
            if limits.keys() >= set(node.reads) and any(node.constants):
                limits |= dict.fromkeys(node.outputs, REPLACED if plain_name(node.operator) in REBUILDING else APART)
        made = {name: self.own[name] for name in limits.keys() & set(self.own)}
        folded = nearest(made, self._constants(self.reference))
        alike = {name: (other, 0.0) for name, (other, apart) in folded.items() if apart <= limits[name]}
        ahead, ends = _unpaired_ahead(self.candidate, {**self.pairs, **alike}, self.limit), set(self.candidate.outputs)
        for node in self.candidate.nodes:
            if any(ends & ahead[name] for name in node.outputs):
                yield node

    def _constants(self, program: ComparedProgram) -> dict[str, ValueSketch]:
        """Return what the floats among the constants of a program are known by."""
        count = len(self.inputs)
        return {name: one for node in program.nodes for name, one in sketched_constants(node, count).items()}

    def replaced(self) -> Iterator[ComparedNode]:
        """Yield the nodes with other constants than their counterpart, which reads the same in the same layout.

        A channel with the other sign has elements of the same sizes, so that in any order they look the same. A weight
        that meets an almost silent channel hardly moves the result: it is another one if no rounding makes it so.
        """
        for node in self.candidate.nodes:
            like = [one for one in self.counterparts(node, whole=True) if dict(one.attributes) == dict(node.attributes)]
            like = [one for one in like if len(one.reads) == len(node.reads)]
            others = [one for one in like if self.differs(node.reads, one.reads) <= SAME]
            changed = all(next(differing(one, node), None) is not None for one in others)
            apart = [(self.differs(node.outputs, one.outputs), largest_change(one, node)) for one in others]
            if others and changed and all(far > (SAME if part > REPLACED else OTHER) for far, part in apart):
                yield node

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
            kind = plain_name(reader.operator)
            if kind in FORGETTING and unpaired & set(reader.reads) and plain_name(node.operator) not in FORGETTING:
                twins = (self.pairs[name] for name in reader.outputs if name in self.pairs)
                if any(apart <= self.limit and plain_name(there.get(twin, "")) == kind for twin, apart in twins):
                    return True
        return False

    def _begins(self, node: ComparedNode) -> bool:
        """Return whether the reference has the inputs of a node and not its result."""
        near = {name: self.pairs[name][1] for name in node.reads if name in self.pairs}
        # flags that the reference has not may say the opposite there
        flags = {name for name in near if np.isin(self.own[name].points, (0, 1)).all()}
        read = [apart for name, apart in near.items() if apart <= self.limit or name not in flags]
        given = [self.pairs[name][1] for name in node.outputs if name in self.pairs][:1]
        same = np.clip(FAR * np.sum(given), EXACTLY, SAME) if self.limit == EXACT else self.limit
        if not given or not read or np.max(read) > same:
            return False  # of what is made of integers alone it is not known whether they are the same
        if node.rounds and self.limit != REPLACED and not any(one.rounds for one in self.reference.nodes):
            return False  # a quantised file of one that is not
        return given[0] > np.maximum(self.limit, np.minimum(TIMES * np.max(read, initial=SAME), REPLACED))

    def turned(self, node: ComparedNode, other: ComparedNode | None, rewired: bool) -> tuple[ComparedNode, str] | None:
        """Return what gives elements that `node` is made from in an order that they have nowhere in the reference.

        Axes may be permuted and mean the same. It is the first such node, with the value that has these elements there;
        else the one that gives `node` what `other`, its counterpart, is given in another order. Of a node that is
        `rewired` it may be before a part that the reference has, and reads in another place.
        """
        makers = {name: one for one in self.candidate.nodes for name in one.outputs}
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
            if not ordered or (rewired and not (other and near in other.reads)):
                pending += makers[name].reads
        pairs = zip(node.reads, other.reads if other is not None else (), strict=False)
        reads = [(name, there) for name, there in pairs if name in {*makers} & {*self.own} and there in self.known]
        wanted = {one for like in doubted.values() for one in like} | {there for _, there in reads}
        own, known = (self.values_of(self.candidate, {*doubted, *node.reads}), self.values_of(self.reference, wanted))
        turned = [
            (makers[name], self.pairs[name][0])
            for name, like in doubted.items()
            if not any(is_permuted(own[name], known[one], ORDERED * self.limit) for one in like)
        ]
        turned = sorted(turned, key=lambda pair: pair[0].index) or [
            (makers[name], there)
            for name, there in reads
            if own[name].shape == known[there].shape and self.own[name].distance(self.known[there]) <= self.limit
            if not self._same_order(name, there)
        ]
        return next(iter(turned), None)

    def _same_order(self, name: str, there: str) -> bool:
        """Return whether two values have the same elements in the same order, whatever their shapes."""
        return self.own[name].differs(self.known[there]) <= ORDERED * self.limit

    def values_of(self, program: ComparedProgram, names: Collection[str]) -> dict[str, np.ndarray]:
        """Return these values of a program on the first inputs, floats in float64."""
        given = by_name(program.inputs, self.inputs[0], program.label)
        found = {name: np.asarray(value, np.float64) for name, value in given.items() if name in names}

        def keep(name: str, value: Value) -> None:
            if name in names:
                found[name] = np.array(value, np.float64)

        if {*names} - {*found}:
            program.compute(given, keep)
        return found

    def is_fixed(self, name: str) -> bool:
        """Return whether a value of the reference is the same on all inputs."""
        return not np.ptp(self.known[name].points.reshape(len(self.inputs), -1), axis=0).any()

    def counterparts(self, node: ComparedNode, whole: bool = False) -> list[ComparedNode]:
        """Return the nodes of the reference that read the same, those of the same operator first.

        With `whole`, those alone that are of the same operator and read the same and nothing else.
        """
        read = self.paired_reads(node)
        if whole:
            like = [one for one in self.reference.nodes if one.operator == node.operator]
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
        return next(iter([*self.lacked, *(one.key for one in self.counterparts(node))]), "")

    @cached_property
    def lacked(self) -> list[str]:
        """The operators of the reference with whose result begins what an output there is made of, and nothing here."""
        ahead, ends = _unpaired_ahead(self.reference, self.back, self.limit), set(self.reference.outputs)
        folded: set[str] = set()  # what is made of constants alone
        lacked = []
        for one in self.reference.nodes:
            if folded.issuperset(one.reads):
                folded |= set(one.outputs)
            elif any(ends & ahead[name] for name in one.outputs):
                lacked += [] if any(ahead.get(name) for name in {*one.reads} - folded) else [one.key]
        return lacked

    def is_missing(self, node: ComparedNode) -> bool:
        """Return whether the candidate has nothing like the result of a node of the reference."""
        return any(self.back[name][1] > self.limit for name in node.outputs if name in self.back)


@cache
def plain_name(operator: str) -> str:
    """Return an operator's name as PyTorch and ONNX share it, without domain, overload and number of axes.

    >>> plain_name("aten.clamp.default"), plain_name("com.microsoft.Clip"), plain_name("aten.conv2d.default")
    ('clip', 'clip', 'conv')
    >>> plain_name("LeakyRelu"), plain_name("ReduceMean"), plain_name("Concat")
    ('leakyrelu', 'mean', 'cat')
    """
    parts = operator.lower().replace("::", ".").split(".")
    name = re.sub("_|^reduce|[123]d$", "", parts[1] if parts[0] == "aten" else parts[-1])
    return {"clamp": "clip", "concat": "cat"}.get(name, name)


def _with_bias(
    reference: ComparedProgram,
    candidate: ComparedProgram,
    known: Mapping[str, ValueSketch],
    own: Mapping[str, ValueSketch],
    limit: float,
) -> Iterator[tuple[str, ValueSketch]]:
    """Yield the products that are results of the reference once its bias is added, with what that gives.

    Other programs add it in the next operator (``Add``, ``BiasGelu``, ``SkipLayerNormalization``). Sums with random
    signs are linear, so that those of the bias can be added to those of the product.
    """
    results = {one.outputs[0]: one for one in reference.nodes if plain_name(one.operator) in BIASED}
    biases = [
        (name, one, constant[1].astype(np.float64))
        for name, one in results.items()
        for constant in one.constants
        if name in known and constant is not None and constant[1].ndim == 1
    ]
    for node in (one for one in candidate.nodes if plain_name(one.operator) == "matmul" and one.outputs[0] in own):
        value = own[node.outputs[0]]
        for name, other, bias in biases:
            if value.size == known[name].size and same_weight(other, node):
                added = ValueSketch.of(np.tile(bias, value.size // bias.size)).images
                images = value.images + np.tile(added, value.images.size // added.size)
                if replace(value, images=images).differs(known[name]) <= limit:
                    yield node.outputs[0], known[name]


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
