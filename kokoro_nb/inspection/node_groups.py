"""A file run group by group, so that no more is held than what later nodes still read, whatever the number of nodes.

A group is a model of its own, which is given what the runtime gave before it; each node runs once. Where what goes into
a group cannot be given so (sequences, and floats of 16 bits, which a runtime without such kernels keeps in float32 from
one node to the next), the whole file is run with the values of the group as its outputs.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from kokoro_nb.inspection.onnx_file import OnnxFile
from kokoro_nb.inspection.onnx_model import OnnxNode, freeing, last_readers, run_session, session_of, tapped
from kokoro_nb.inspection.value_types import Arrays, Value, Values
from kokoro_nb.traces.statistics import relative_difference

FIRST = 32  # nodes of the first group, before it is known how large their values are
MOST = 60  # nodes of one group: the values of the next ones may be far larger than those before
AT_ONCE = 32 * 2**20  # bytes of the values of one group that runs by itself
OF_WHOLE = 256 * 2**20  # the same where the whole file is run for each group
HEAVY = 128 * 2**20  # bytes of a file whose groups are not run on two threads: each would be loaded once more
APART = 2.0**-16  # of the peak: what orders of summation make of it on several threads is less
AGAIN, THREADS = "a second call", "two threads"
GIVEN = tuple(map(np.dtype, "fd?bhilBHIL"))  # as characters of NumPy


@dataclass(eq=False)
class NodeGroups:
    """Groups of nodes that follow one another, each with what its nodes read and give on the runtime.

    Attributes
    ----------
    file : OnnxFile
        The file, its random nodes pinned.
    nodes : tuple of OnnxNode
        Its nodes in order.
    inputs : dict of str to numpy.ndarray
        What it is run on.
    unlike : dict of OnnxNode to str
        The nodes that give something else then although they are given the same, and in which run.
    """

    file: OnnxFile
    nodes: tuple[OnnxNode, ...]
    inputs: Arrays
    unlike: dict[OnnxNode, str] = field(default_factory=dict)

    def __iter__(self) -> Iterator[tuple[tuple[OnnxNode, ...], dict[str, Value]]]:
        constants = self.file.constants
        alive: dict[str, Value] = {**self.inputs}  # what the nodes from `start` on may read
        start, count, freed = 0, FIRST, last_readers(self.nodes, set())
        while start < len(self.nodes):
            group = self._light(self.nodes[start : start + count])
            names = dict.fromkeys(name for node in group for name in (*node.reads, *node.outputs))
            given = dict.fromkeys(name for node in group for name in node.outputs if name not in constants)
            outer = {name: alive[name] for name in names if name not in given and name not in constants}
            alone = all(getattr(one, "dtype", object) in GIVEN for one in outer.values())
            if alone:
                values = outer | self._alone(group, outer, list(given))
            else:  # what the group reads comes from the same run: other outputs are rounded at other places
                read = [name for name in outer if name not in self.inputs]
                whole = tapped(self.file.model, [*read, *given])
                values = outer | run_session(session_of(whole), self.inputs)
            made = {name: values[name] for name in given}
            values |= {name: constants[name] for name in names if name in constants}
            alive |= made
            list(freeing(group, freed, alive))
            start += len(group)
            size = sum(map(bytes_of, made.values())) or 1
            limit = AT_ONCE if alone else OF_WHOLE
            count = int(np.clip(count * np.clip(limit / size, 0.25, 4.0), 1, MOST if alone else 32 * MOST))
            yield group, values

    def _light(self, group: tuple[OnnxNode, ...]) -> tuple[OnnxNode, ...]:
        """Return the first nodes of a group, as many as read no more weights together than a group may give."""
        read: set[str] = set()
        total = 0
        for k, node in enumerate(group):
            new = {name for name in node.reads if name in self.file.tensors} - read
            read |= new
            total += sum(self.file.tensors[name].ByteSize() for name in new)
            if k and total > AT_ONCE:
                return group[:k]
        return group

    def _alone(self, group: tuple[OnnxNode, ...], outer: Values, wanted: list[str]) -> dict[str, Value]:
        """Run the nodes as a model of their own."""
        model = self.file.part([node for node in group if not node.is_random], outer, wanted)
        session = session_of(model)
        values = run_session(session, outer)
        self._compare(group, values, run_session(session, outer), AGAIN, 0.0)
        del session  # it holds the weights of the group, as the next one does
        if self.file.size <= HEAVY:
            self._compare(group, values, run_session(session_of(model, threads=2), outer), THREADS, APART)
        return values

    def _compare(self, group: tuple[OnnxNode, ...], values: Values, other: Values, run: str, apart: float) -> None:
        """Note the nodes of a group that give something else in another run, and are given nothing else there."""
        changed: set[str] = set()
        for node in group:
            new = {name for name in node.outputs if name in values and differ(values[name], other[name], apart)}
            if new and not changed & set(node.reads):
                self.unlike.setdefault(node, run)
            changed |= new


def differ(value: Value, other: Value, apart: float) -> bool:
    """Return whether two tensors are further apart than this share of the peak; at 0, whether their bits differ."""
    if not isinstance(value, np.ndarray) or not isinstance(other, np.ndarray):
        return False
    if value.dtype.kind not in "fiub" or (value.shape == other.shape and value.tobytes() == other.tobytes()):
        return False
    return not apart or value.dtype.kind != "f" or not relative_difference(other, value) <= apart


def bytes_of(value: Value) -> int:
    """Return how many bytes a value takes, a sequence's items together."""
    return sum(map(bytes_of, value)) if isinstance(value, list) else int(getattr(value, "nbytes", 0))
