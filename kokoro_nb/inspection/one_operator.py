"""One node of a file as a model of its own."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from kokoro_nb.errors import InputError
from kokoro_nb.inspection.onnx_file import OnnxFile
from kokoro_nb.inspection.onnx_nodes import OnnxNode, typed_inputs
from kokoro_nb.inspection.onnx_session import run_session, session_of
from kokoro_nb.inspection.value_types import Value, Values


@dataclass(frozen=True, eq=False)
class OneOperator:
    """A model of one node with its inputs.

    Attributes
    ----------
    model : onnx.ModelProto
        The node; constants of the file are its initialisers.
    inputs : dict of str to numpy.ndarray
        What else it read on the runtime.
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
