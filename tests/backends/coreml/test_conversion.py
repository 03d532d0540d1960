"""What becomes of a module on the way to the file, what crosses its interface, and prediction on macOS."""

import sys
from dataclasses import replace

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

from kokoro_nb.backends import BACKENDS, backend
from kokoro_nb.backends.artefacts import read_taps
from kokoro_nb.backends.coreml import CoreMlProgram
from kokoro_nb.backends.coreml.conversion import MixedPrecision, interface
from kokoro_nb.backends.exported import export_program
from kokoro_nb.backends.mil import CoreMlReference
from kokoro_nb.errors import InputError
from kokoro_nb.faults import Fault, plant
from tests.backends.small import Of, taking

X = {"x": torch.linspace(-1, 1, 12).reshape(1, 3, 4)}


def _dtypes(spec):
    """Return the dtype of the first output of each operator that is no constant, by its name."""
    from coremltools.proto import MIL_pb2

    (block,) = spec.mlProgram.functions["main"].block_specializations.values()
    return {
        op.outputs[0].name: MIL_pb2.DataType.Name(op.outputs[0].type.tensorType.dataType)
        for op in block.operations
        if op.type != "const"
    }


def test_every_operator_is_float16_but_those_that_are_named_and_the_interface(coreml, spec_of, tmp_path):
    module = Of(lambda x: torch.sin(x) * 2 + x)
    inside = ("x_to_fp16", "sin_cast_fp16", "mul_cast_fp16", "add_cast_fp16")
    plain = coreml.export(module, X, tmp_path)
    assert _dtypes(spec_of(plain)) == {**dict.fromkeys(inside, "FLOAT16"), "add": "FLOAT32"}
    full = replace(coreml, precision="float32").export(module, X, tmp_path)
    assert set(_dtypes(spec_of(full)).values()) == {"FLOAT32"}
    mixed = replace(coreml, precision=MixedPrecision(("sin", "mul"))).export(module, X, tmp_path)
    kinds = _dtypes(spec_of(mixed))
    assert (kinds["sin"], kinds["mul"], kinds["add_cast_fp16"]) == ("FLOAT32", "FLOAT32", "FLOAT16")
    assert mixed.path != plain.path


def test_a_result_is_what_stands_before_the_cast_to_the_output(coreml, tmp_path):
    made = coreml.export(Of(lambda x: torch.sin(x) > 0), X, tmp_path)
    places = read_taps(made.folder).places
    assert places == {":sin": "sin_cast_fp16", ":gt": "gt__pre__output__fp32__cast"}
    made = coreml.export(Of(lambda x: torch.sin(x).transpose(1, 2)), X, tmp_path)
    assert read_taps(made.folder).places == {":sin": "sin_cast_fp16", ":transpose": "transpose_cast_fp16"}
    made = coreml.export(Of(lambda x: torch.sort(torch.sin(x)).values), X, tmp_path)  # its places come first
    assert read_taps(made.folder).places[":sort"] == "gather_along_axis_0_cast_fp16"


class Several(nn.Module):
    """Modules called twice, results taken apart, and a transposition that coremltools moves."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.linear, self.conv = nn.Linear(4, 12), nn.Conv1d(3, 3, 3, padding=1)

    def forward(self, x):
        q, k, v = self.linear(x).unflatten(2, (3, 4)).unbind(2)
        y = self.conv(torch.relu(self.conv(q))) * torch.sin(k) + torch.sin(v)
        return y.transpose(1, 2).relu() - self.linear(y)[..., :4].transpose(1, 2)


@pytest.mark.parametrize("route", ["export", "trace", "traced program"])
def test_what_is_captured_under_a_name_is_the_operators_result(route, coreml, tmp_path):
    exported = export_program(Several(), X)
    reference = CoreMlReference("reference", replace(coreml, route=route, precision="float32"))
    trace = reference.load(reference.export(exported, X, tmp_path)).trace(X, keep="full")
    expected = backend("eager").load(backend("eager").export(exported, X)).trace(X, keep="full").values
    assert {"linear:linear", "linear:linear#2", "conv:conv1d", "conv:conv1d#2", ":sin", ":sin#2"} <= {*trace.values}
    assert (":unbind#2" in trace.values) == (route == "export")
    for name, value in trace.values.items():
        np.testing.assert_allclose(value, expected[name], atol=1e-5)


REFUSED = {
    "where": (Of(lambda x: torch.where(x > 0, x, 0.5)), "Unsupported fx node where, kind where.scalarother"),
    "new_ones": (Of(lambda x: x + x.new_ones(4)), "Unsupported fx node new_ones, kind new_ones"),
    "and_1": (Of(lambda x: ((x > 0) & (x < 1)).float()), "Unsupported fx node and_1, kind __and__"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_the_tool_refuses_is_named_and_taken_in_core_operators(name, coreml, tmp_path):
    module, words = REFUSED[name]
    failure = coreml.export(module, X, tmp_path)
    assert (failure.rung, failure.message, failure.operator) == ("lowered", words, name)
    reference = CoreMlReference("reference", replace(coreml, precision="float32", core_operators=True))
    program = reference.load(reference.export(module, X, tmp_path))
    np.testing.assert_allclose(program.run(X)["output"], module(**X), rtol=1e-6)
    assert set(program.trace(X).missing) <= {":new_ones"}, "a constant of the file"


def test_in_a_trace_the_operator_is_named_that_takes_a_computed_number(coreml, tmp_path):
    module = Of(lambda x: torch.sin(x)[..., 1:] + torch.cos(x)[..., : x.shape[-1] // 2 + 1])
    failure = replace(coreml, route="trace").export(module, X, tmp_path)
    assert (failure.rung, failure.error) == ("lowered", "TypeError")
    assert "at 'slice_2' (which takes a number that the trace computes)" in failure.log


def test_what_a_planted_fault_goes_on_to_change_is_no_result_of_the_operator(coreml, tmp_path):
    viewed = Of(lambda x, weight: torch.sin(F.linear(x[:, 0], weight).view(1, 6, 1)), torch.randn(6, 4))
    planted = plant(export_program(viewed, X), Fault("zeroed_channel", ":linear"))
    runtime = backend("coreml-reference-float32")
    trace = runtime.load(runtime.export(planted, X, tmp_path)).trace(X, keep="full")
    expected = backend("eager").load(backend("eager").export(planted, X)).trace(X, keep="full").values
    # coremltools gives the last operator of the fault the shape of the view, and so the result itself is nowhere
    assert ":linear" in trace.missing
    for name, value in trace.values.items():
        np.testing.assert_allclose(value, expected[name], atol=1e-6)


SINE = Of(lambda x: torch.sin(x))


NAMES = taking(lambda list, step, mask, ids: {"list": list + step, "x.y": mask.logical_not(), "n": ids + 1})
INPUTS = {"list": torch.ones(2, 3), "step": torch.tensor(2.0)}
INPUTS |= {"mask": torch.tensor([True, False]), "ids": torch.tensor([1, -5])}
EXPECTED = {"list": np.full((2, 3), 3, "float32"), "x.y": np.array([False, True]), "n": np.array([2, -4], "int32")}


class Model:
    """Stands in for `coremltools.models.MLModel` where there is no Core ML."""

    def __init__(self, path):
        import coremltools as ct

        self.spec = ct.utils.load_spec(path)

    def get_spec(self):
        return self.spec

    def predict(self, inputs):
        x, step, mask, ids = (inputs[feature.name] for feature in self.spec.description.input)
        assert [one.shape for one in (x, step, mask, ids)] == [(2, 3), (1,), (2,), (2,)]
        assert [one.dtype.name for one in (x, step, mask, ids)] == ["float32"] * 3 + ["int32"]
        names = [feature.name for feature in self.spec.description.output]
        return dict(zip(names, (x + step, 1 - mask, ids + 1), strict=True))


def test_on_macos_the_file_is_loaded_and_predicts_under_our_names(coreml, tmp_path, monkeypatch):
    made = coreml.export(NAMES, INPUTS, tmp_path)
    monkeypatch.setattr(sys, "platform", "darwin")
    monkeypatch.setattr("coremltools.models.MLModel", Model)
    assert coreml.executes() is None
    program = coreml.load(made)
    assert isinstance(program, CoreMlProgram)
    results = program.run(INPUTS)
    assert list(results) == list(EXPECTED)
    for name, value in EXPECTED.items():
        np.testing.assert_array_equal(results[name], value)


def test_elsewhere_loading_says_where_it_would_run(coreml, tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "platform", "linux")
    assert "macOS only" in coreml.executes()
    with pytest.raises(InputError, match="coreml-reference runs the same file on any machine"):
        coreml.load(coreml.export(SINE, X, tmp_path))


def test_inputs_are_cast_without_a_word(coreml, spec_of, tmp_path):
    made = coreml.export(NAMES, INPUTS, tmp_path)
    found = interface(spec_of(made), made)
    given = {name: value.numpy() for name, value in INPUTS.items()} | {"ids": np.array([2**32 + 7, -(2**31) - 1])}
    assert found.to_file(given)[found.inputs["ids"][0]].tolist() == [7, 2**31 - 1], "they wrap around"


def test_a_file_with_other_outputs_than_the_module_is_refused(coreml, spec_of, tmp_path):
    spec = spec_of(coreml.export(SINE, X, tmp_path))
    with pytest.raises(InputError, match="1 inputs and 2 outputs, and the file that coremltools makes of it 1 and 1"):
        interface(spec, export_program(Of(lambda x: (x, x)), X))


def test_one_artefact_for_all_who_read_it(coreml, tmp_path):
    reference = BACKENDS["coreml-reference"]
    theirs, ours = reference.converter.export(SINE, X, tmp_path), reference.export(SINE, X, tmp_path)
    assert (ours.backend, ours.cached, ours.path) == ("coreml-reference", True, theirs.path)
    assert reference.executes() is None
