"""What becomes of a module on the way to the file, on both routes and in every precision."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from kokoro_nb.backends import backend
from kokoro_nb.backends.coreml import conversion
from kokoro_nb.backends.coreml.precision import MixedPrecision
from kokoro_nb.backends.exported import export_program
from kokoro_nb.faults import Fault, plant

ROUTES = ("export", "trace")
X = {"x": torch.linspace(-1, 1, 12).reshape(1, 3, 4)}


class Function(nn.Module):
    """A module of one function of `x`."""

    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, x):
        return self.function(x)


def _operators(spec):
    """Return type and names of the outputs of each operator of a saved file, constants left out."""
    (block,) = spec.mlProgram.functions["main"].block_specializations.values()
    return [(op.type, [out.name for out in op.outputs]) for op in block.operations if op.type != "const"]


def _dtypes(spec):
    """Return the dtype of the first output of each operator that is no constant, by its name."""
    from coremltools.proto import MIL_pb2

    (block,) = spec.mlProgram.functions["main"].block_specializations.values()
    return {
        op.outputs[0].name: MIL_pb2.DataType.Name(op.outputs[0].type.tensorType.dataType)
        for op in block.operations
        if op.type != "const"
    }


@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize("target", ["iOS17", "iOS18"])
def test_the_file_is_for_the_system_it_was_asked_for(route, target, coreml, spec_of, tmp_path):
    spec = spec_of(replace(coreml, route=route, target=target).export(Function(torch.sin), X, tmp_path))
    assert spec.specificationVersion == {"iOS17": 8, "iOS18": 9}[target]


def test_float16_casts_every_operator_and_leaves_the_interface(coreml, run, spec_of, tmp_path):
    module = Function(lambda x: torch.sin(x) * 2 + x)
    made = replace(coreml, precision="float16").export(module, X, tmp_path)
    assert _dtypes(spec_of(made)) == {
        "x_to_fp16": "FLOAT16",
        "sin_cast_fp16": "FLOAT16",
        "mul_cast_fp16": "FLOAT16",
        "add_cast_fp16": "FLOAT16",
        "output": "FLOAT32",
    }
    assert set(_dtypes(spec_of(coreml.export(module, X, tmp_path))).values()) == {"FLOAT32"}
    np.testing.assert_allclose(
        run(module, X, precision="float16")["output"],
        module(**X),
        atol=2.0**-9,  # 4 roundings below 4
    )


def test_mixed_precision_keeps_what_it_names_in_float32(coreml, spec_of, tmp_path):
    module = Function(lambda x: torch.sin(x) * 2 + x)
    made = replace(coreml, precision=MixedPrecision(("sin", "mul"))).export(module, X, tmp_path)
    kinds = _dtypes(spec_of(made))
    assert (kinds["sin"], kinds["mul"], kinds["add_cast_fp16"]) == ("FLOAT32", "FLOAT32", "FLOAT16")
    assert made.path != replace(coreml, precision="float16").export(module, X, tmp_path).path


@pytest.mark.parametrize("precision", ["float32", "float16"])
def test_two_steps_give_the_operators_of_one(precision, coreml, spec_of, tmp_path):
    """Ours, without the identities of the outputs, against one plain call of coremltools."""
    import coremltools as ct

    exported = export_program(nn.Sequential(nn.Conv1d(3, 4, 3), nn.GELU(), nn.InstanceNorm1d(4)), {"input": X["x"]})
    ours = replace(coreml, precision=precision).export(exported, {"input": X["x"]}, tmp_path)
    plain = ct.convert(
        exported.program.run_decompositions({}),
        inputs=[ct.TensorType(name="input", shape=(1, 3, 4), dtype=np.float32)],
        outputs=[ct.TensorType(name="output", dtype=np.float32)],
        minimum_deployment_target=ct.target.iOS17,
        compute_precision=getattr(ct.precision, precision.upper()),
        skip_model_load=True,
    )
    types = [op.op_type for op in plain._mil_program.functions["main"].operations if op.op_type != "const"]
    assert [kind for kind, _ in _operators(spec_of(ours)) if kind != "identity"] == types


@pytest.mark.parametrize("route", ROUTES)
def test_a_remainder_of_one_is_zero_in_the_file_and_right_before_the_passes(route, coreml, run):
    # x % 1 is written as x - (x // 1) * 1, and a pass takes the floor division by 1 for no operation.
    module, inputs = Function(lambda x: x % 1), {"x": torch.linspace(-2, 2, 9)}
    exported = export_program(module, inputs)
    backend = replace(coreml, route=route)
    expected = inputs["x"] % 1
    np.testing.assert_array_equal(backend.graph(exported).run(inputs)["output"], expected)
    np.testing.assert_array_equal(run(module, inputs, route)["output"], 0)
    mended = Function(lambda x: x - torch.floor(x))  # what the patch floor_phase writes
    np.testing.assert_array_equal(run(mended, inputs, route)["output"], expected)


def test_the_pass_that_zeroes_the_remainder_is_noop_elimination():
    import coremltools as ct
    from coremltools.converters.mil.mil.passes.pass_registry import PASS_REGISTRY

    exported = export_program(Function(lambda x: x % 1), {"x": torch.linspace(-2, 2, 9)})

    def divisions(program):
        return sum(op.op_type == "floor_div" for op in program.functions["main"].operations)

    program = conversion.mil_program(exported, "export", "iOS17")
    for name in ct.PassPipeline.DEFAULT.passes:
        before = divisions(program)
        if name not in (f"common::add_{kind}_cast" for kind in ("fp16", "int16")):
            PASS_REGISTRY[name](program)
        if divisions(program) < before:
            break
    assert (name, before, divisions(program)) == ("common::noop_elimination", 1, 0)


@pytest.mark.parametrize(("route", "written"), [("export", np.inf), ("trace", np.float32(3.4e38))])
def test_an_infinity_in_the_forward_is_written_as_a_large_number_on_the_route_trace(route, written, run):
    module = Function(lambda x: torch.where(x > 0, float("inf"), x))
    result = run(module, {"x": torch.tensor([1.0, -1.0])}, route)["output"]
    np.testing.assert_array_equal(result, np.array([written, -1.0], "float32"))


def test_atan2_of_a_small_x_is_that_of_an_x_moved_by_two_hundred_millionths(run):
    class Angle(nn.Module):
        def forward(self, y, x):
            return torch.atan2(y, x)

    inputs = {"y": torch.tensor([1e-8, 1e-8, -1.0, 1.0]), "x": torch.tensor([1e-9, -1e-7, 0.0, -1.0])}
    y, x = inputs["y"].double(), inputs["x"].double()
    moved = torch.atan2(y, torch.where(x.abs() < 1e-8, x + 2e-8, x))
    result = run(Angle(), inputs)["output"]
    np.testing.assert_allclose(result, moved, atol=1e-6)
    assert abs(result[0] - torch.atan2(y, x)[0]) > 1  # 0.44 instead of 1.47: it matters where there is no signal


def test_names_do_not_hang_on_a_conversion_that_broke_off(coreml, spec_of, tmp_path):
    from coremltools.converters.mil import Builder

    module = Function(lambda x: torch.atan2(x, x + 2))
    first = _operators(spec_of(coreml.export(module, X, tmp_path / "first")))
    Builder.name_count["less"] += 3  # what coremltools leaves behind where it raises
    assert _operators(spec_of(coreml.export(module, X, tmp_path / "second"))) == first


def test_what_a_planted_fault_goes_on_to_change_is_no_result_of_the_operator(coreml, tmp_path):
    class Viewed(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = nn.Linear(4, 6)

        def forward(self, x):
            return torch.sin(self.fc(x[:, 0]).view(1, 6, 1))

    planted = plant(export_program(Viewed(), X), Fault("zeroed_channel", "fc:linear"))
    runtime = backend("coreml-reference-float32")
    trace = runtime.load(runtime.export(planted, X, tmp_path)).trace(X, keep="full")
    expected = backend("eager").load(backend("eager").export(planted, X)).trace(X, keep="full").values
    # coremltools gives the last operator of the fault the shape of the view, and so the result itself is nowhere
    assert "fc:linear" in trace.missing
    for name, value in trace.values.items():
        np.testing.assert_allclose(value, expected[name], atol=1e-6)
