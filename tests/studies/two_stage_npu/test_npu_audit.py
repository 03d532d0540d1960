"""The table of the NPU's operators: on hand-made graphs, against what the patches remove, against a compiler."""

from dataclasses import replace

import onnx
import pytest
from onnx import TensorProto, helper

from kokoro_nb.backends.qnn.assignment import FOLDED, SCOPES, Assignment, Node
from kokoro_nb.models.patches import EXPORT_PATCHES
from kokoro_nb.studies.two_stage_npu import npu_audit
from kokoro_nb.studies.two_stage_npu.npu_audit import audit, disagreements
from tests.refusals import refused


def _value(name, shape=(1, 2), kind=TensorProto.FLOAT):
    return helper.make_tensor_value_info(name, kind, shape)


def _save(tmp_path, nodes, inputs=(), outputs=(), values=()):
    graph = helper.make_graph(nodes, "g", inputs or [_value("x")], outputs or [_value("y")], value_info=values)
    onnx.save(helper.make_model(graph), tmp_path / "m.onnx")
    return tmp_path / "m.onnx"


def _node(op, name="", reads=("x",), gives=("y",), **attributes):
    return helper.make_node(op, reads, gives, name or op.lower(), **attributes)


def _body(*nodes):
    flags = [_value("it", (), TensorProto.INT64), _value("go", (), TensorProto.BOOL), _value("s", ("n", 2))]
    return helper.make_graph(nodes, "body", flags, [_value("go2", (), TensorProto.BOOL), _value("s2")])


def test_each_node_has_a_class_and_its_module(tmp_path):
    conv = _node("Conv", "c", gives=("a",))
    conv.metadata_props.add(key=SCOPES, value="['', 'decoder', 'decoder.encode', 'conv1d']")
    other = _node("Acosh", "f", ("a",), ("b",))
    other.metadata_props.add(key=SCOPES, value="decoder/encode(")  # of another exporter: no module
    nodes = [
        conv,
        other,
        _node("NonZero", "n", ("b",), ("i",)),
        _node("Teleport", "t", ("i",), ("j",), domain="example"),
        _node("Conv", "other", ("j",), ("y",), domain="example"),
    ]
    found = audit(_save(tmp_path, nodes))
    assert [(n.name, n.kind) for n in found.nodes] == [
        ("c", "supported"),
        ("f", "fallback"),
        ("n", "blocking"),
        ("t", "unknown"),
        ("other", "unknown"),  # an operator of that name in another domain is another operator
    ]
    assert found.nodes[0] == npu_audit.AuditedNode("c", "Conv", "", "decoder.encode", "supported")
    assert found.nodes[1].module == ""
    assert found.nodes[2].removed_by == "where_phase"
    assert found.nodes[2].reason.startswith("the shape of its result depends on the data")
    assert "compiler: refused, unless" in found.nodes[2].reason
    counts = {"nodes": 5, "supported": 1, "fallback": 1, "blocking": 1, "unknown": 2}
    assert found.as_dict() == counts | {"dynamic shapes": 0, "shapes not stated": 4}
    assert {row["op"]: row["nodes"] for row in found.by_op()} == {"Acosh": 1, "NonZero": 1, "Teleport": 1, "Conv": 1}


def test_a_loop_is_looked_into(tmp_path):
    inner = _node("NonZero", "inner", ("s",), ("s2",))
    loop = _node("Loop", "loop", ("n", "go", "x"), body=_body(inner))
    found = audit(_save(tmp_path, [loop]))
    assert [(n.name, n.kind) for n in found.nodes] == [("loop", "blocking"), ("inner", "blocking")]
    assert found.nodes[0].removed_by == "two stages"
    assert found.dynamic == ("s",)


def test_shapes_that_are_not_fixed_are_listed(tmp_path):
    bare = onnx.ValueInfoProto(name="bare")
    series = helper.make_tensor_sequence_value_info("series", TensorProto.FLOAT, (1,))
    inputs = [_value("x", ("tokens", 2)), _value("scalar", ())]
    values = [_value("a", (None, 2)), _value("fixed", (0, 2)), bare, series]
    path = _save(tmp_path, [_node("Relu", gives=("a",)), _node("Relu", "r", ("a",))], inputs, values=values)
    found = audit(path)
    assert found.dynamic == ("x", "a", "bare", "series")
    assert found.undescribed == 0
    assert audit(_save(tmp_path, [_node("Relu", gives=("a",)), _node("Relu", "r", ("a",))])).undescribed == 1


def test_a_file_too_large_to_be_one_is_not_read(tmp_path):
    with (tmp_path / "m.onnx").open("wb") as file:
        file.truncate(2**31)  # sparse: it takes no room
    refused("2 GiB or more", audit, tmp_path / "m.onnx")


AUDIT_OPS = ("Conv", "Conv", "Acosh", "Loop", "Teleport", "If", "Relu", "Acosh")
PLACES = ("npu", "cpu", "cpu", "cpu", "npu", "npu", "unknown", "removed")


@pytest.fixture
def both(tmp_path):
    nodes = [_node(op, f"n{i}", domain="example" if op == "Teleport" else "") for i, op in enumerate(AUDIT_OPS)]
    placed = tuple(
        Node(f"n{i}", op, "", place, None, "" if place == "npu" else "No.")
        for i, (op, place) in enumerate(zip(AUDIT_OPS, PLACES, strict=True))
    )
    return audit(_save(tmp_path, nodes)), Assignment(placed, {})


def test_every_disagreement_is_listed_and_nothing_else(both):
    columns = ("name", "op", "module", "table", "compiler", "reason")
    assert [tuple(row[column] for column in columns) for row in disagreements(*both)] == [
        ("n1", "Conv", "", "supported", "cpu", "No."),
        ("n4", "Teleport", "", "unknown", "npu", ""),
        ("n5", "If", "", "blocking", "npu", ""),
        ("n6", "Relu", "", "supported", "unknown", "No."),
    ]


def test_what_is_folded_away_is_no_disagreement(both):
    audited, placed = both
    folded = replace(placed, nodes=tuple(replace(n, place="removed", reason=FOLDED) for n in placed.nodes))
    assert [found["op"] for found in disagreements(audited, folded)] == ["Loop", "Teleport", "If"]


def test_an_assignment_of_another_file_is_refused(both):
    audited, placed = both
    refused("different files", disagreements, audited, replace(placed, nodes=placed.nodes[1:]))


def test_the_table_says_where_it_is_from_and_every_blocking_operator_why():
    table = npu_audit.operator_table()
    assert any("onnxruntime-qnn at commit" in source for source in table["source"])
    assert [n for n, about in table["operators"].items() if about["class"] == "blocking" and not about["reason"]] == []
    named = {about["removed_by"] for about in table["operators"].values() if "removed_by" in about}
    assert named <= {*EXPORT_PATCHES, *table["removed_by"]}
    standard = {schema.name for schema in onnx.defs.get_all_schemas()}
    assert {name for name in table["operators"] if ":" not in name} - standard == {"Inverse"}  # com.microsoft's
