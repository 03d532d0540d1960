"""Small ONNX files that the tests of this room make themselves."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

FLOATS = {"float32": TensorProto.FLOAT, "float16": TensorProto.FLOAT16, "float64": TensorProto.DOUBLE}


@pytest.fixture
def save(tmp_path):
    """Return a function that writes nodes, inputs (name -> shape) and constants as a file and returns its path."""

    def write(nodes, inputs, outputs, constants=None, dtype="float32", opset=18, name="model.onnx", **types):
        kinds = {one: types.get(one, FLOATS[dtype]) for one in inputs}
        graph = helper.make_graph(
            nodes,
            "main_graph",
            [helper.make_tensor_value_info(one, kinds[one], shape) for one, shape in inputs.items()],
            [helper.make_tensor_value_info(one, types.get(one, FLOATS[dtype]), None) for one in outputs],
            [numpy_helper.from_array(np.asarray(array), one) for one, array in (constants or {}).items()],
        )
        opsets = [helper.make_opsetid("", opset), helper.make_opsetid("com.microsoft", 1)]
        path = tmp_path / name
        onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=10), path)
        return path

    return write


@pytest.fixture
def node():
    """Return ``onnx.helper.make_node`` with the operator's output first named after it."""
    return helper.make_node
