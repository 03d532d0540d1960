"""Which known defect a culprit is a case of."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from kokoro_nb.backends.base import Failure
from kokoro_nb.backends.called_operators import arguments_by_name, is_element
from kokoro_nb.backends.exported import Exported
from kokoro_nb.defects import DEFECTS
from kokoro_nb.locate.culprit import Culprit, Mechanism
from kokoro_nb.torch_private import schema

OF_THE_FILE = ("changed constant", "frozen length", "quantisation range")  # no defect of a tool by themselves
RUNNERS = {"coremltools": "coreml", "onnxruntime": "onnxruntime", "tvm": "tvm", "xnnpack": "executorch-xnnpack"}


def known_failure(failure: Failure) -> dict[str, Any] | None:
    """Return the known defect whose message a failed export shows: its name, title and threads; None if none does."""
    for defect in DEFECTS:
        theirs = defect.runner and failure.backend.startswith(RUNNERS.get(defect.runner, "\0"))
        if defect.error and theirs and re.search(defect.error, failure.message):
            return {"name": defect.name, "title": defect.title, "threads": []}
    return None


def known_mechanism(culprits: Sequence[Culprit]) -> dict[str, Any] | None:
    """Return the same of the first culprit whose mechanism is a known defect's."""
    named = next((one.mechanism for one in culprits if one.mechanism.defect), None)
    if named is None:
        return None
    title = next((one.title for one in DEFECTS if one.name == named.defect), "")
    return {"name": named.defect, "title": title, "threads": list(named.threads)}


def with_known_defect(culprit: Culprit, exported: Exported, failure: Failure | None = None) -> Culprit:
    """Return a culprit whose mechanisms name the known defects that they are cases of.

    Where the evidence speaks for no mechanism, a defect that is about the operator alone is named all the same.

    Parameters
    ----------
    culprit : Culprit
        With an operator.
    exported : Exported
        The program, in which the operator is called with its arguments.
    failure : Failure, optional
        With which the export stopped at this operator.
    """
    if culprit.tap is None or exported.named_by is not None:
        return culprit  # what was changed on purpose is no defect of the runtime
    op = culprit.tap.operator.kind
    arguments = _arguments(exported, culprit.tap.name)
    said = "" if failure is None else f"{failure.error}: {failure.message}\n{failure.cause}"
    known = [
        defect
        for defect in DEFECTS
        if op in defect.operators and culprit.backend.startswith(defect.backends) and defect.concerns(arguments)
        if bool(defect.error) == (failure is not None) and re.search(defect.error, said)  # of a failure its error alone
    ]
    found = []
    for mechanism in culprit.mechanisms:
        may = () if mechanism.name in OF_THE_FILE else ("", mechanism.name)
        linked = next((one for one in known if one.mechanism in may), None)
        found.append(mechanism if linked is None else replace(mechanism, defect=linked.name, threads=linked.threads))
    alone = next((one for one in known if not one.mechanism), None)
    if culprit.mechanism.name == "unknown" and alone is not None:
        text = f"{alone.title}: {alone.cause}"
        about = {"defect": alone.name, "threads": alone.threads}
        itself = Mechanism("operator lowered as another", "a known defect of this operator", (text,), **about)
        found.insert(0, itself)
    return replace(culprit, mechanisms=tuple(found))


def _arguments(exported: Exported, name: str) -> Mapping[str, Any]:
    specification = exported.specification
    node = specification.results(specification.program.graph.nodes).get(name)
    if node is None or is_element(node) or schema(node.target) is None:
        return {}
    return arguments_by_name(node.target, node.args, node.kwargs)
