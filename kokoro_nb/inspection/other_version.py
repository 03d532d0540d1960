"""A second version of the runtime, in another interpreter: whether it computes the same nodes as float64 does."""

import json
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from kokoro_nb.errors import InputError
from kokoro_nb.inspection import onnxruntime_elsewhere
from kokoro_nb.inspection.blame import InspectionFinding
from kokoro_nb.inspection.file_run import FileRun
from kokoro_nb.inspection.judged_run import SHOWN_ALONE
from kokoro_nb.inspection.node_judgement import judged_outputs
from kokoro_nb.inspection.onnx_nodes import OnnxNode
from kokoro_nb.inspection.onnx_session import brief, tapped
from kokoro_nb.inspection.semantics.onnx_call import NotDefined
from kokoro_nb.inspection.value_types import Arrays, Value, Values
from kokoro_nb.markup import number
from kokoro_nb.run_apart import run_apart
from kokoro_nb.traces.parity import relative_difference

PATIENCE = 600.0  # seconds for all runs


@dataclass(frozen=True)
class OtherVersion:
    """An interpreter with an ONNX Runtime beside it.

    Attributes
    ----------
    python : str
        Path of the interpreter.
    label : str
        The runtime with its version.
    """

    python: str
    label: str

    @classmethod
    def of(cls, python: str | Path) -> "OtherVersion":
        """Look for the runtime of an interpreter.

        Raises
        ------
        InputError
            If it is no interpreter that can be started, or has no ONNX Runtime.
        """
        from kokoro_nb.defects.environments import environment

        found = environment(python).packages
        version = next((found[name] for name in sorted(found) if name.split("-")[0] == "onnxruntime"), None)
        if version is None:
            raise InputError(f"{python} has no onnxruntime; give bin/python of an environment that has one.")
        return cls(str(python), f"onnxruntime {version}")

    def run(self, models: Sequence[tuple[Any, bool]], inputs: Arrays) -> list[dict[str, Value] | InputError]:
        """Run models, each optimised or not, and return the outputs by name, or why there are none.

        Raises
        ------
        InputError
            If the process ends before its time, or does not end.
        """
        import onnx

        with tempfile.TemporaryDirectory() as room:
            folder = Path(room)
            request = [(str(folder / f"model_{place}.onnx"), optimised) for place, (_, optimised) in enumerate(models)]
            for (path, _), (model, _) in zip(request, models, strict=True):
                onnx.save(model, path)
            (folder / "request.json").write_text(json.dumps(request), encoding="utf-8")
            np.savez(folder / "inputs.npz", **dict(inputs))  # type: ignore[arg-type]  # a name is no option here
            done = run_apart(["-I", onnxruntime_elsewhere.__file__, room], self.python, PATIENCE)
            if done.status is None:
                raise InputError(f"{self.label} in {self.python} does not end within {PATIENCE:g} s.")
            if not (folder / "answer.json").exists():
                raise InputError(f"{self.label} in {self.python} crashes on the file: {done.last_line[:200]}")
            answer = json.loads((folder / "answer.json").read_text(encoding="utf-8"))
            return [_outputs(folder / f"outputs_{place}.npz", one) for place, one in enumerate(answer)]


def _outputs(path: Path, answer: Mapping[str, Any]) -> dict[str, Value] | InputError:
    if "stopped" in answer:
        return InputError(brief(RuntimeError(answer["stopped"])))
    with np.load(path) as saved:
        return dict(zip(answer["names"], (saved[name] for name in saved.files), strict=True))


def second_opinion(
    seen: FileRun, findings: tuple[InspectionFinding, ...], other: OtherVersion, mine: str
) -> tuple[tuple[InspectionFinding, ...], tuple[str, ...]]:
    """Run the file on another version of the runtime, and judge there the nodes that are wrong here.

    Parameters
    ----------
    seen : FileRun
        What was seen on the version here.
    findings : tuple of InspectionFinding
        What was found there.
    other : OtherVersion
        The other version.
    mine : str
        What the version here is called.

    Returns
    -------
    tuple of InspectionFinding
        The same with what the other version shows; where that is right, the runtime is to blame.
    tuple of str
        How far the outputs of the two are apart, in sentences.
    """
    found = {finding.key for finding in findings}
    pairs = zip(seen.nodes, seen.judgements, strict=False)
    wrong = [node for node, one in pairs if one.verdict == "fail" and node.key in found][:SHOWN_ALONE]
    places = {node.key: node for node in wrong}
    names = [name for node in wrong for name in (*node.reads, *node.outputs)]
    inner = [name for name in names if name not in seen.file.constants and name not in seen.inputs]
    model, ends = seen.file.model, [one.name for one in seen.file.model.graph.output]
    try:
        inside, optimised = other.run(
            [(tapped(model, dict.fromkeys([*ends, *inner])), False), (model, True)], seen.inputs
        )
    except InputError as error:
        return findings, (f"The other version says nothing: {error}",)
    if isinstance(inside, InputError):
        return findings, (f"{other.label} does not run the file: {inside}",)
    plain, values = {name: inside[name] for name in ends if name in inside}, {**seen.inputs, **inside}
    judged = []
    for finding in findings:
        if finding.key in places:
            judged.append(_at_node(seen, places[finding.key], finding, values, other.label, mine))
        elif finding.kind == "optimisation" and not isinstance(optimised, InputError):
            judged.append(_optimised(finding, plain, optimised, other.label))
        else:
            judged.append(finding)
    return tuple(judged), _apart(seen, plain, other.label, mine)


def _at_node(
    seen: FileRun, node: OnnxNode, finding: InspectionFinding, values: Values, label: str, mine: str
) -> InspectionFinding:
    """Judge a node on what the other version gave it there."""
    every = {**values, **{name: seen.file.constants[name] for name in node.reads if name in seen.file.constants}}
    if any(name not in every for name in (*node.reads, *node.outputs)):
        return replace(finding, proof=(*finding.proof, f"{label} does not show what goes through the node."))
    call, inputs = seen.call(node, every)
    try:
        errors, _ = judged_outputs(call, inputs, [every[name] if name else None for name in node.proto.output])
    except NotDefined:
        return finding
    times = number(float(np.max([one.ratio for one in errors], initial=0.0)))
    if any(one.is_wrong for one in errors):
        words = f"{label} does not give here what float64 does either: {times} times what rounding explains."
        return replace(finding, proof=(*finding.proof, words))
    words = f"{label} gives here what float64 does ({times} times what rounding explains), and {mine} does not."
    return replace(finding, blame="runtime", proof=(*finding.proof, words))


def _optimised(finding: InspectionFinding, plain: Values, optimised: Values, label: str) -> InspectionFinding:
    shares = [relative_difference(np.asarray(optimised[name]), np.asarray(one)) for name, one in plain.items()]
    words = f"Optimised by {label}, the outputs change by {number(float(np.max(shares, initial=0.0)))} of their peak."
    return replace(finding, proof=(*finding.proof, words))


def _apart(seen: FileRun, plain: Values, label: str, mine: str) -> tuple[str, ...]:
    """Return how far each output is apart, and from float64."""
    notes = []
    for name, value in plain.items():
        here = np.asarray(seen.outputs[name])
        apart = number(relative_difference(np.asarray(value), here))
        true = seen.true.get(name)
        far = "" if true is None else f", {number(relative_difference(np.asarray(value), np.asarray(true)))} of float64"
        notes.append(f"{label} gives the output '{name}' within {apart} of the peak of that of {mine}{far}.")
    return tuple(notes)
