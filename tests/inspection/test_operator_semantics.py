"""What operators compute in float64, by onnx's own node tests: at least 95 % of the float ones to 1e-12."""

import numpy as np
import pytest

from kokoro_nb.inspection.inspecting import inspect
from kokoro_nb.inspection.semantics.onnx_call import MEANINGS
from tests.inspection.node_tests import LIMIT, OTHER, distances, module_names

QUICK = """
add batch_normalization clip concat conv convtranspose cumsum dequantizelinear dynamicquantizelinear erf exp gather
gathernd gelu gemm groupnormalization gru hannwindow if_ instance_normalization layernormalization loop lstm matmul
matmulinteger mod pad pow qlinearconv qlinearmatmul quantizelinear reducemean rnn scan sigmoid slice softmax
transpose where convinteger scatter rangeop reshape sin tanh stft cast
"""


def _distances(modules):
    return {name: apart for module in modules for name, apart in distances(module).items()}


def test_operators_compute_what_the_node_tests_of_onnx_compute():
    distances = _distances(QUICK.split())
    assert len(distances) > 150
    assert {name for name, apart in distances.items() if not apart <= LIMIT} <= set(OTHER)


@pytest.mark.slow
def test_nineteen_of_twenty_float_node_tests_come_out_to_twelve_digits():
    apart = _distances(name for name in module_names() if name != "ai_onnx_ml")  # trees and tables
    others = {name for name, one in apart.items() if not one <= LIMIT}
    assert len(apart) > 700
    assert others <= set(OTHER)
    assert len(others) <= 0.05 * len(apart)


def test_a_wrong_operator_is_seen(monkeypatch):
    monkeypatch.setitem(MEANINGS, "Erf", lambda call, x: np.tanh(1.2 * x))
    assert distances("erf")["test_erf"] > 1e-3


def _drawn(*shape):
    return np.random.default_rng(len(shape)).random(shape, np.float32) + np.float32(0.1)


CUT_OFF = {"kernel_shape": [4], "strides": [3], "pads": [1, 1], "ceil_mode": 1, "count_include_pad": 1}
OLD = {  # what version 13 and onnx's reference evaluator compute otherwise, or not at all
    "log_softmax_of_all_behind": ("LogSoftmax", 9, [_drawn(2, 3, 4, 5)], {"axis": 2}),
    "softmax_by_default": ("Softmax", 12, [_drawn(2, 3, 4)], {}),
    "hardmax": ("Hardmax", 11, [_drawn(2, 3, 4)], {"axis": 0}),
    "batch_norm": ("BatchNormalization", 9, [_drawn(2, 3, 4), *[_drawn(3)] * 4], {"momentum": 0.9}),
    "batch_norm_before": ("BatchNormalization", 7, [_drawn(1, 3, 4), *[_drawn(3)] * 4], {"epsilon": 0.1}),
    "norm_of_order_one": ("LpNormalization", 1, [_drawn(3, 5) - 1], {"axis": 1, "p": 1}),
    "resize_by_a_fraction": ("Resize", 13, [_drawn(1, 2, 5), _drawn(0), np.float32([1, 1, 2.6])], {"mode": "linear"}),
    "resize_of_scales_alone": ("Resize", 10, [_drawn(1, 2, 5, 4), np.float32([1, 1, 2, 1.6])], {"mode": "nearest"}),
    "mean_of_a_last_window_cut_off": ("AveragePool", 19, [_drawn(1, 2, 12)], CUT_OFF),
    "largest_of_uneven_windows": ("MaxPool", 13, [_drawn(1, 2, 8)], {"kernel_shape": [5], "pads": [4, 0]}),
    "scatter_of_few": ("Scatter", 9, [_drawn(4, 3), np.int64([[0, -1], [1, 2]]), _drawn(2, 2)], {"axis": 0}),
    "upsample": ("Upsample", 7, [_drawn(1, 2, 5, 4)], {"mode": "nearest", "scales": [1.0, 1.0, 2.0, 3.0]}),
}


@pytest.mark.parametrize(("operator", "opset", "given", "attributes"), OLD.values(), ids=OLD)
def test_a_version_of_an_operator_is_computed_as_it_was_defined(save, node, operator, opset, given, attributes):
    names = [f"c{k}" for k in range(1, len(given))]
    made = node(operator, ["x", *names], ["y"], name="n", **attributes)
    path = save([made], {"x": given[0].shape}, ["y"], dict(zip(names, given[1:], strict=True)), opset=opset)
    found = inspect(path, {"x": given[0]})
    assert [one.verdict for one in found.judgements] == ["pass"], str(found)
    assert not found.findings


def test_a_version_that_is_computed_as_a_later_one_is_seen(save, node, monkeypatch):
    monkeypatch.delitem(MEANINGS, "Softmax")
    path = save([node("Softmax", ["x"], ["y"], axis=1)], {"x": [2, 3, 4]}, ["y"], opset=11)
    assert inspect(path).first is not None
