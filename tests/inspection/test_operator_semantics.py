"""What operators compute in float64, by onnx's own node tests: at least 95 % of the float ones to 1e-12."""

import numpy as np
import pytest

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
    monkeypatch.setitem(MEANINGS, ("", "Erf"), lambda call, x: np.tanh(1.2 * x))
    assert distances("erf")["test_erf"] > 1e-3
