"""Onnxscript's rewriting with the node looked at first."""

import pytest

from kokoro_nb.backends.quick_rewriting import quick_rewriting

onnx = pytest.importorskip("onnx")
matcher = pytest.importorskip("onnxscript.rewriter._matcher")

# Two slices, which the one rule with several outputs is about, among nodes that it is not.
HALVES = """
<ir_version: 9, opset_import: ["": 18]>
halves (float[1,8] x) => (float[1,4] y)
<int64[1] zero = {0}, int64[1] four = {4}, int64[1] eight = {8}, int64[1] last = {1}>
{
    first = Slice (x, zero, four, last)
    second = Slice (x, four, eight, last)
    wave = Sin (first)
    cast = Cast <to = 1> (second)
    y = Add (wave, cast)
}
"""


def _rewritten():
    import onnx_ir
    from onnxscript.optimizer import optimize_ir

    model = onnx_ir.from_proto(onnx.parser.parse_model(HALVES))
    optimize_ir(model)
    return onnx_ir.to_proto(model).SerializeToString(deterministic=True)


def test_the_file_is_the_same_to_the_byte_and_only_nodes_of_the_operator_are_combined(monkeypatch):
    combined = set()
    combine = matcher.SimplePatternMatcher.match

    def counted(self, model, graph, node, **options):
        if not self.pattern.has_single_output_node:
            combined.add(node.op_type)
        return combine(self, model, graph, node, **options)

    monkeypatch.setattr(matcher.SimplePatternMatcher, "match", counted)
    plain, before = _rewritten(), set(combined)
    combined.clear()
    with quick_rewriting():
        quick = _rewritten()
    assert quick == plain
    assert combined == {"Slice"} < before


def test_the_search_is_the_ordinary_one_again_afterwards():
    match = matcher.SimplePatternMatcher.match
    with quick_rewriting():
        assert matcher.SimplePatternMatcher.match is not match
    assert matcher.SimplePatternMatcher.match is match
