"""ONNX files of nodes that are made by hand."""

import numpy as np
import onnx
from onnx import helper, numpy_helper


def saved(path, nodes, inputs, outputs, constants=None, opset=18, domain=""):
    """Write nodes as a file and return its path.

    `inputs` and `outputs` are names with ONNX's number of the type and the shape, `constants` names with arrays;
    `domain` is one beside ONNX's own.
    """
    ends = [[helper.make_tensor_value_info(key, *about) for key, about in some.items()] for some in (inputs, outputs)]
    held = [numpy_helper.from_array(np.asarray(array), name) for name, array in (constants or {}).items()]
    opsets = [helper.make_opsetid("", opset), *([helper.make_opsetid(domain, 1)] if domain else [])]
    graph = helper.make_graph(nodes, "main_graph", *ends, held)
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=10), path)
    return path


def with_constant(path, find, change):
    """Change one constant of a file: `find` returns its name, given the nodes and the constants by their names."""
    model = onnx.load(path)
    held = {one.name: one for one in model.graph.initializer}
    tensor = held[find(model.graph.node, held)]
    tensor.CopyFrom(numpy_helper.from_array(change(numpy_helper.to_array(tensor)), tensor.name))
    onnx.save(model, path)
