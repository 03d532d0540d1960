"""What crosses the interface of a Core ML file: names, dtypes, shapes."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from kokoro_nb.backends.coreml.interface import Interface, Port, interface
from kokoro_nb.errors import InputError

X = {"x": torch.linspace(-1, 1, 12).reshape(1, 3, 4)}


class Function(nn.Module):
    """A module of one function of `x`."""

    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, x):
        return self.function(x)


@pytest.mark.parametrize("route", ["export", "trace"])
def test_the_file_says_what_each_input_and_output_was_declared_as(route, coreml, names, spec_of, tmp_path):
    spec = spec_of(replace(coreml, route=route).export(*names[:2], tmp_path))
    ports = interface(spec)
    assert [(p.name, p.shape, p.dtype) for p in ports.inputs] == [
        ("list", (2, 3), "float32"),
        ("step", (), "float32"),
        ("mask", (2,), "bool"),
        ("ids", (2,), "int64"),
    ]
    assert [(p.name, p.shape, p.dtype) for p in ports.outputs] == [
        ("list", (2, 3), "float32"),
        ("x.y", (2,), "bool"),
        ("x_y", (2,), "int64"),
        ("0", (), "float32"),
        ("é", (), "float32"),
    ]
    for side, features in ((ports.inputs, spec.description.input), (ports.outputs, spec.description.output)):
        assert [port.feature for port in side] == [feature.name for feature in features]
    everything = [port.feature for port in (*ports.inputs, *ports.outputs)]
    assert len(set(everything)) == len(everything)


def test_a_file_of_another_origin_is_refused():
    import coremltools as ct

    with pytest.raises(InputError, match="does not say what it was exported from"):
        interface(ct.proto.Model_pb2.Model())


def test_values_cross_the_interface_exactly():
    whole = np.array([-(2**31), 2**31 - 1])
    ids, mask = Port("ids", "a", (2,), "int64"), Port("mask", "b", (2,), "bool")
    np.testing.assert_array_equal(ids.to_file(whole), whole)
    assert ids.to_file(whole).dtype == np.int32
    assert mask.to_file(np.array([True, False])).tolist() == [1.0, 0.0]
    assert mask.to_file(np.array([True, False])).dtype == np.float32
    assert Port("step", "c", (), "float32").to_file(np.float32(3)).shape == (1,)
    back = Interface((), (ids, mask, Port("y", "c", (), "float32"))).from_file(
        {"b": np.array([1.0, 0.0], "float32"), "a": np.array([7, -7], "int32"), "c": np.array([np.nan], "float32")}
    )
    assert [(name, value.dtype.name, value.shape) for name, value in back.items()] == [
        ("ids", "int64", (2,)),
        ("mask", "bool", (2,)),
        ("y", "float32", ()),
    ]
    assert np.isnan(back["y"])


@pytest.mark.parametrize("value", [2**31, -(2**31) - 1])
def test_an_integer_of_more_than_32_bits_is_refused(value):
    with pytest.raises(InputError, match=r"Input 'ids' holds integers between .* Core ML takes int32"):
        Port("ids", "ids", (1,), "int64").to_file(np.array([value]))


@pytest.mark.parametrize(
    ("module", "inputs", "sentence"),
    [
        (Function(lambda x: x + 1), {"x": X["x"].double()}, "input 'x' is float64"),
        (Function(lambda x: x.double()), X, "output 'output' is float64"),
        (Function(lambda x: x + 1), {"x": X["x"].to(torch.int8)}, "input 'x' is int8"),
    ],
)
def test_a_dtype_that_core_ml_would_change_stops_the_export(module, inputs, sentence, coreml, tmp_path):
    failure = coreml.export(module, inputs, tmp_path)
    assert (failure.rung, failure.error) == ("lowered", "InputError")
    assert sentence in failure.message
