"""Programs made from an exported one: a part of it, or the whole with further outputs; operators keep their names."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from kokoro_nb.backends.assembly import assembled, needed_for
from kokoro_nb.backends.called_operators import user_results
from kokoro_nb.backends.exported import Exported
from kokoro_nb.backends.signature import Arrays
from kokoro_nb.errors import InputError

# no input or output has the name of a node: a backend might take it for another result of that name
_FED, _GIVES = "fed_", "result_"


@dataclass(frozen=True)
class Segment:
    """A part of a program.

    Attributes
    ----------
    exported : Exported
        The part. Its operators go by the names that they have in the whole.
    fed : dict
        Name of an input of the part -> name of the operator of the whole whose result it is.
    turned : dict
        Name of such an input -> the order in which its axes are given: the one in which they lie in memory there.
    results : dict
        Name of an operator -> name of the output that is its result.
    """

    exported: Exported
    fed: Mapping[str, str]
    turned: Mapping[str, tuple[int, ...]]
    results: Mapping[str, str]

    def inputs(self, inputs: Arrays, captured: Mapping[str, np.ndarray]) -> dict[str, Any]:
        """Return what the part is run on.

        Parameters
        ----------
        inputs : mapping
            Array of each input of the whole by its name.
        captured : mapping
            Array of each operator's result in the whole by its name.
        """
        found = {}
        for spec in self.exported.inputs:
            if spec.name in self.fed:
                value = captured[self.fed[spec.name]]
                found[spec.name] = np.asarray(np.transpose(value, self.turned[spec.name]), order="C")
            else:
                found[spec.name] = inputs[spec.name]
        return found

    def taken(self, outputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Return the results among the `outputs` of a run, by the names of the operators."""
        return {name: outputs[output] for name, output in self.results.items()}


def part(exported: Exported, given: Collection[str], wanted: Collection[str]) -> Segment:
    """Return what computes `wanted` from `given` and from the inputs of the program.

    Parameters
    ----------
    exported : Exported
        The whole.
    given : collection of str
        Operators that are not computed: their results are inputs of the part, as far as it reads them.
    wanted : collection of str
        Operators whose results are its outputs, in this order; none of `given`.

    Raises
    ------
    InputError
        If there is no such operator in the program, or nothing is wanted.
    """
    nodes = known_nodes(exported, (*given, *wanted))
    ends = {nodes[name]: name for name in given}
    targets = [nodes[name] for name in wanted]
    if not targets:
        raise InputError("A part without outputs computes nothing; name at least one operator that is wanted.")
    needed = needed_for(targets, ends)
    names = {node: f"{_FED}{node.name}" for node in ends if node in needed}
    outputs = {f"{_GIVES}{node.name}": node for node in targets}
    made, turned = assembled(exported, needed, names, outputs)
    fed = {names[node]: name for node, name in ends.items() if node in names}
    return Segment(made, fed, turned, {name: f"{_GIVES}{nodes[name].name}" for name in wanted})


def with_outputs(exported: Exported, names: Collection[str]) -> Exported:
    """Return the program with the results of operators as further outputs, which go by the operators' names.

    Any backend can be looked into so, by compiling once more; but what it compiles is another graph, and what it joined
    across a result it no longer joins.

    Parameters
    ----------
    exported : Exported
        The program.
    names : collection of str
        Operators. One whose result is an output already is not added: see `output_of`.

    Raises
    ------
    InputError
        If there is no such operator in the program, or the program has an output of that name.
    """
    nodes = known_nodes(exported, names)
    graph = exported.specification.program.graph
    own = user_results(exported.specification.program)
    added = {name: nodes[name] for name in dict.fromkeys(names) if nodes[name] not in own}
    taken = sorted(set(added) & set(exported.outputs))
    if taken:
        raise InputError(f"The program has an output called '{taken[0]}', as one of its operators is; rename it.")
    outputs = dict(zip(exported.outputs, own, strict=True)) | added
    needed = needed_for(outputs.values(), ()) | {node for node in graph.nodes if node.op == "placeholder"}
    return assembled(exported, needed, {}, outputs)[0]


def output_of(exported: Exported) -> dict[str, str]:
    """Return the operators whose results are outputs of the program: name of the operator -> name of the output."""
    own = user_results(exported.specification.program)
    names: dict[Any, str] = {}
    for name, node in zip(exported.outputs, own, strict=True):
        names.setdefault(node, name)
    return {name: names[node] for name, node in result_nodes(exported).items() if node in names}


def result_nodes(exported: Exported) -> dict[str, Any]:
    """Return the node of the specification's graph that holds each operator's result."""
    graph = exported.specification.program.graph
    return exported.specification.results(node for node in graph.nodes if node.op == "call_function")


def known_nodes(exported: Exported, names: Collection[str]) -> dict[str, Any]:
    """Return `result_nodes`, in which all of `names` are.

    Raises
    ------
    InputError
        If one is not.
    """
    nodes = result_nodes(exported)
    for name in names:
        if name not in nodes:
            raise InputError(f"The program has no operator '{name}' whose result is one tensor; see its `operators`.")
    return nodes
