"""One node of a file as a model of its own, and the script that shows its error without this package."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from kokoro_nb.errors import InputError
from kokoro_nb.inspection.onnx_file import OnnxFile
from kokoro_nb.inspection.onnx_nodes import OnnxNode, typed_inputs
from kokoro_nb.inspection.onnx_session import run_session, session_of
from kokoro_nb.inspection.value_types import Value, Values
from kokoro_nb.run_apart import run_apart

LINES = """\
import onnx
import onnxruntime

here = Path(__file__).parent
saved = np.load(here / "values.npz")
model = onnx.load(here / "one_node.onnx")
options = onnxruntime.SessionOptions()
options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
given = session.run(None, {{one.name: saved["in." + one.name] for one in session.get_inputs()}})[{output}]
"""


@dataclass(frozen=True, eq=False)
class OneOperator:
    """A model of one node with what went into it.

    Attributes
    ----------
    model : onnx.ModelProto
        The node; constants of the file are its initialisers.
    inputs : dict of str to numpy.ndarray
        What else went into it on the runtime.
    """

    model: Any
    inputs: dict[str, np.ndarray]

    def run(self) -> dict[str, Value]:
        """Run it alone on the runtime.

        Raises
        ------
        InputError
            If the runtime does not take it.
        """
        return run_session(session_of(self.model), self.inputs)

    def by_reference(self) -> dict[str, Value]:
        """Run it on onnx's reference evaluator, in the types of the file.

        Raises
        ------
        InputError
            If that does not know the operator, or stops.
        """
        from onnx.reference import ReferenceEvaluator

        try:
            with np.errstate(all="ignore"):
                results = ReferenceEvaluator(self.model).run(None, self.inputs)
        except Exception as error:  # a third party's operators: anything can come
            raise InputError(f"onnx's reference evaluator stops: {str(error)[:200]}") from error
        return dict(zip((output.name for output in self.model.graph.output), results, strict=True))


def one_operator(file: OnnxFile, node: OnnxNode, values: Values) -> OneOperator:
    """Return one node as a model.

    Parameters
    ----------
    file : OnnxFile
        The file that it is in.
    node : OnnxNode
        The node.
    values : mapping of str to value
        What it reads, in the types of the file.

    Raises
    ------
    InputError
        If it reads a sequence.
    """
    import onnx
    from onnx import helper

    read = {name: values[name] for name in node.reads if name not in file.constants}
    if any(isinstance(value, list) for value in read.values()):
        raise InputError(f"{node.key} reads a sequence, which no file of tensors holds.")
    arrays = {name: np.asarray(value) for name, value in read.items()}
    graph = helper.make_graph(
        [node.proto],
        "one_node",
        typed_inputs(arrays),
        [onnx.ValueInfoProto(name=name) for name in node.outputs],
        [onnx.numpy_helper.from_array(file.constants[n], n) for n in node.reads if n in file.constants],
    )
    opsets = [helper.make_opsetid(domain, version) for domain, version in file.opsets.items()]
    return OneOperator(helper.make_model(graph, opset_imports=opsets, ir_version=int(file.model.ir_version)), arrays)


def write_script(folder: Path, one: OneOperator, statement: str, output: str, right: np.ndarray, error: float) -> Path:
    """Write the model, the values and the script into a folder; return the script's path."""
    import onnx

    folder.mkdir(parents=True, exist_ok=True)
    onnx.save(one.model, folder / "one_node.onnx")
    values: dict[str, Any] = {f"in.{name}": array for name, array in one.inputs.items()}
    np.savez_compressed(folder / "values.npz", right=np.asarray(right, np.float64), **values)
    index = [value.name for value in one.model.graph.output].index(output)
    path = folder / "show.py"
    path.write_text(script(statement, "onnx and onnxruntime", LINES.format(output=index), error), encoding="utf-8")
    return path


SHOWN = 0.99  # share of the error that it must show
PATIENCE = 120.0  # seconds
HEAD = '''\
"""{statement}

Needs numpy and {needs}. One operator, the values that went into it, and what it gives in float64.
"""
from pathlib import Path

import numpy as np
'''
TAIL = """\
given, right = given.astype(np.float64), saved["right"]
both = np.isfinite(given) & np.isfinite(right)
error = np.abs(given - right)[both].max(initial=0.0)
print(f"finite {{np.isfinite(given).mean():.4%}}, should be {{np.isfinite(right).mean():.4%}}")
print(f"largest error {{error:.6g}}, in the file {error:.6g}")
"""
SAID = re.compile(r"finite (\S+)%, should be (\S+)%\s+largest error (\S+), in the file (\S+)")


def script(statement: str, needs: str, lines: str, error: float) -> str:
    """Return the script.

    Parameters
    ----------
    statement : str
        What is wrong.
    needs : str
        Packages, in words.
    lines : str
        The imports, and lines that read ``here / "values.npz"`` as ``saved`` and compute ``given``.
    error : float
        Of the operator in the file.
    """
    plain = statement.replace("\\", "/").replace('"""', "'''")
    return HEAD.format(statement=plain, needs=needs) + lines + TAIL.format(error=error)


def tried(path: Path, kind: str) -> None:
    """Run a script in a process of its own.

    Raises
    ------
    InputError
        If it does not show the error there.
    """
    done = run_apart(["-I", path], seconds=PATIENCE, folder=path.parent)
    if done.status is None:
        raise InputError("alone it does not end.")
    said = SAID.search(done.stdout)
    if said is None:
        raise InputError(f"alone it stops: {done.last_line[:200]}")
    finite, should, error, stated = map(float, said.groups())
    unlike = finite < 100 if kind == "nonfinite" else finite != should
    if not unlike and not (kind != "nonfinite" and error >= SHOWN * stated > 0):
        raise InputError("in a process of its own, on the same values, it is right.")
