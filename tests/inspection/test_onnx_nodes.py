"""The ids of nodes are those of Model Explorer's ONNX adapter, which has the library onnx_ir name them."""

import onnx
import pytest

from kokoro_nb.inspection.onnx_model import nodes_of


def test_ids_are_those_of_the_adapter(save, node):
    names = (None, "same", "same", None, "", "same")
    nodes = [node("Neg", [f"v{k}"], [f"v{k + 1}"], name=name) for k, name in enumerate(names)]
    nodes[4].name = ""
    odd_names = save(nodes, {"v0": [3]}, ["v6"])
    ir = pytest.importorskip("onnx_ir")
    from onnx_ir.passes.common import NameFixPass

    model = ir.from_proto(onnx.shape_inference.infer_shapes(onnx.load(odd_names)))
    NameFixPass()(model)
    assert [node.key for node in nodes_of(onnx.load(odd_names).graph)] == [node.name for node in model.graph]
