"""Every node test of onnx that ONNX Runtime runs: no alarm is raised on it, but for what is known to differ."""

import numpy as np
import onnx
import pytest
from onnx import helper

import kokoro_nb as nb
from kokoro_nb.errors import InputError
from kokoro_nb.inspection.node_judgement import judged_outputs
from kokoro_nb.inspection.onnx_model import run_once, typed_inputs
from kokoro_nb.inspection.semantics.onnx_call import NotDefined, OnnxCall, dtypes_of
from tests.inspection.node_tests import cases_of, module_names

QUICK = """
batch_normalization clip conv convtranspose cumsum dynamicquantizelinear exp gelu gemm groupnormalization gru
instance_normalization layernormalization lstm matmul matmulinteger qlinearconv qlinearmatmul quantizelinear
reducesum resize softmax stft tanh convinteger
"""
MASKED = "test_attention_4d_with_past_and_present_qk_matmul_bias_{}_mask_causal{}"
LOWEST = "the runtime masks with the lowest float, the definition with -inf"
ALIGNED = "the runtime aligns with the rounded size, the definition with the scaled one"
DIFFERS = {
    **{MASKED.format(rank, more): LOWEST for rank in ("3d", "4d") for more in ("", "_expanded")},
    **{f"test_resize_downsample_scales_{mode}_align_corners": ALIGNED for mode in ("linear", "cubic")},
    "test_maxunpool_export_with_output_shape": "the runtime reads the indices in the smaller output",
    "test_optional_has_element_empty_optional_input": "the case leaves its input out",
}
"""What ONNX Runtime gives otherwise than onnx's reference, and why."""


def _alarms(modules, newest=24):
    """Return the cases that were judged, and those of them in which something is called wrong."""
    judged, alarms = set(), {}
    for module in modules:
        for case in cases_of(module, original=True):
            given = iter(case.inputs)
            values = [next(given) if name else None for name in case.node.input]
            if any(isinstance(value, list) for value in values):
                continue
            opsets = {domain: min(version, newest) for domain, version in case.opsets.items()}
            try:
                results = _run(case.node, opsets, values)
                call = OnnxCall(case.node, opsets, dtypes_of(values))
                errors, _ = judged_outputs(call, values, [results.get(name) for name in case.node.output])
            except (InputError, NotDefined, ValueError, TypeError, IndexError):
                continue  # the runtime has no such kernel, or one of them cannot be judged
            judged.add(case.name)
            wrong = [one for one in errors if one.is_wrong]
            if wrong:
                alarms[case.name] = wrong[0]
    return judged, alarms


def _run(node, opsets, values):
    named = {name: np.asarray(value) for name, value in zip(node.input, values, strict=True) if name}
    outputs = [onnx.ValueInfoProto(name=name) for name in node.output if name]
    imports = [helper.make_opsetid(domain, version) for domain, version in opsets.items()]
    model = helper.make_model(
        helper.make_graph([node], "g", typed_inputs(named), outputs), opset_imports=imports, ir_version=10
    )
    return run_once(model, named)


def test_no_alarm_is_raised_on_what_a_runtime_does_right():
    judged, alarms = _alarms(QUICK.split())
    assert len(judged) > 100
    assert set(alarms) <= set(DIFFERS), alarms


@pytest.mark.slow
def test_no_alarm_is_raised_on_any_node_test():
    judged, alarms = _alarms(name for name in module_names() if name not in ("ai_onnx_ml", "image_decoder"))
    assert len(judged) > 1000
    assert set(alarms) <= set(DIFFERS), alarms


@pytest.mark.parametrize("kind", ["Tanh", "Sigmoid", "Elu", "Celu", "Selu", "Softplus", "Mish", "HardSwish"])
def test_a_function_is_off_by_the_rounding_of_its_range_where_it_is_small(save, node, kind):
    path = save([node(kind, ["x"], ["y"], name="/f")], {"x": [40_000]}, ["y"])
    x = np.linspace(-17, 17, 40_000, dtype=np.float32)
    below = np.linspace(-60, -18, 40_000, dtype=np.float32)  # where all of a sigmoid is small
    for values in (x, x**3 / 289, x * np.float32(1e-6), below):  # of the second many are near 0, of the third all
        assert nb.inspect(path, {"x": values}).findings == ()
