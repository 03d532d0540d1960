"""Comparing one tensor with what is right: ties, the ends of float16, the spacing of floats, the bound of a sum."""

import numpy as np
import pytest
from onnx import helper

from kokoro_nb.inspection import inspect
from kokoro_nb.inspection.node_judgement import compared, judged_outputs, unrounded_inputs_explain
from kokoro_nb.inspection.rounding_limits import rounding_limits
from kokoro_nb.inspection.semantics.onnx_call import OnnxCall, computed, dtypes_of
from kokoro_nb.locate.rounding_bound import spacing


def test_an_integer_beside_a_tie_may_be_either():
    node = helper.make_node("QuantizeLinear", ["i0", "i1", "i2"], ["y"])
    inputs = [np.array([0.25, 0.25, 0.3], np.float32), np.float32(0.1), np.uint8(0)]
    half = [inputs[0].astype(np.float16), *inputs[1:]]  # which may have been kept in float32
    call = OnnxCall(node, {"": 18}, dtypes_of(inputs))
    for given, wrong, explained in (([2, 3, 3], 0, True), ([2, 3, 2], 1, True), ([9, 3, 3], 1, False)):
        outputs = [np.array(given, np.uint8)]
        errors, _ = judged_outputs(call, inputs, outputs)
        assert errors[0].wrong == wrong
        assert unrounded_inputs_explain(call, half, outputs, errors, ()) == explained


def test_the_largest_of_float16_is_no_overflow_and_what_is_beyond_is():
    right = np.array([65504.0, 65530.0, 1e5])
    with np.errstate(over="ignore"):
        value = right.astype(np.float32).astype(np.float16)
    found = compared("y", value, right, spacing(right, np.dtype("float16")))
    assert not found.is_wrong
    assert found.right_finite == pytest.approx(1 / 3) if np.isinf(value[1]) else pytest.approx(2 / 3)


def test_the_spacing_of_floats_is_that_of_numpy():
    values = np.array([1.0, 1.5, 3.0, 1e-3, 1e-40, 0.0, -7.0, 3e38])
    assert np.array_equal(spacing(values, np.dtype("float32")), np.abs(np.spacing(values.astype(np.float32))))
    halves = np.array([1.0, 2047.0, 6e-8, 60000.0])
    assert np.array_equal(spacing(halves, np.dtype("float16")), np.abs(np.spacing(halves.astype(np.float16))))
    assert spacing(np.array([1.0]), np.dtype("float32"))[0] == 2.0**-23


def _limits(node, *inputs, opset=18):
    call = OnnxCall(node, {"": opset, "com.microsoft": 1}, dtypes_of(inputs))
    exact, dtype = computed(call, inputs), np.dtype("float32")
    return np.asarray(rounding_limits(call, inputs, exact, 0, dtype, spacing(exact[0], dtype))), exact[0]


@pytest.mark.parametrize("length", [10, 1000, 100_000])
@pytest.mark.parametrize("mean", [0, 1])
def test_the_bound_of_a_sum_of_products_holds_in_order_and_is_not_much_more(length, mean):
    random = np.random.default_rng(0)
    terms = mean + random.standard_normal((20, length)).astype(np.float32)
    ordered = np.cumsum(terms, axis=1)[:, -1:].astype(np.float64)  # in order, in float32
    limits, exact = _limits(helper.make_node("MatMul", ["a", "b"], ["y"]), terms, np.ones((length, 1), np.float32))
    assert (np.abs(ordered - exact) <= limits).all()
    assert limits.max() < 1e-3 * np.abs(exact).max()


@pytest.mark.parametrize("operator", ["Gemm", "FusedMatMul"])
def test_a_product_has_the_bound_of_its_factors_inside(operator):
    a, b = np.random.default_rng(0).standard_normal((2, 8, 8)).astype(np.float32)
    domain = "com.microsoft" if operator == "FusedMatMul" else ""
    scaled = helper.make_node(operator, ["a", "b"], ["y"], alpha=-64.0, domain=domain)
    plain = helper.make_node("MatMul", ["a", "b"], ["y"])
    np.testing.assert_allclose(_limits(scaled, a, b)[0], 64 * _limits(plain, a, b)[0], rtol=1e-12)


def test_the_function_of_a_fused_product_does_not_hide_how_much_it_sums():
    x, w = (np.random.default_rng(0).standard_normal(shape).astype(np.float32) for shape in ((1, 64, 20), (4, 64, 3)))
    plain, right = _limits(helper.make_node("Conv", ["x", "w"], ["y"]), x, w)
    clip = {"activation": "Clip", "activation_params": [-0.5, 0.5], "domain": "com.microsoft"}
    fused, clipped = _limits(helper.make_node("FusedConv", ["x", "w"], ["y"], **clip), x, w)
    assert np.abs(clipped).max() == 0.5 < np.abs(right).max()
    assert (fused > 0.2 * plain).all()


def test_every_output_of_a_node_counts():
    for x in (np.arange(4, dtype=np.float32), np.array(list("abcd"))):
        call = OnnxCall(helper.make_node("Split", ["x"], ["a", "b"], axis=0, num_outputs=2), {"": 18}, dtypes_of([x]))
        errors, _ = judged_outputs(call, [x], [x[:2], x[:1:-1]])
        assert [one.is_wrong for one in errors] == [False, True]


def test_what_is_infinite_in_16_bits_alone_is_no_fault_of_the_node_behind_it(save, node):
    nodes = [node("Mul", ["x", "x"], ["q"], name="/q"), node("Sqrt", ["q"], ["y"], name="/y")]
    path = save(nodes, {"x": [1, 8]}, ["y"], dtype="float16")
    findings = inspect(path, {"x": np.full((1, 8), 300, np.float16)}).findings
    assert [(one.key, one.blame) for one in findings] == [("/q", "precision")]
