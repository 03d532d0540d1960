import numpy as np
import pytest
import torch
from torch import nn

from kokoro_nb.backends.signature import as_array, call_arguments, checked, example_inputs, named_outputs, specs
from kokoro_nb.errors import InputError


class Optional(nn.Module):
    def forward(self, x, scale=None, *, shift=None):
        return x if shift is None else x + shift


class Variadic(nn.Module):
    def forward(self, *args):
        return args[0] - args[1]


class Keywords(nn.Module):
    def forward(self, **kwargs):
        return kwargs["a"] - kwargs["b"]


def test_a_scalar_stays_a_scalar():
    assert as_array("x", torch.tensor(2.0)).shape == ()
    assert as_array("x", np.float32(2)).shape == ()


def test_example_inputs_are_copies_in_the_order_of_forward():
    x = torch.zeros(2)
    arrays = example_inputs(Optional(), {"shift": x, "x": x})
    assert list(arrays) == ["x", "shift"]
    arrays["x"] += 1
    assert x.sum() == 0
    assert arrays["shift"].sum() == 0


@pytest.mark.parametrize(("module", "names"), [(Optional(), ("x", "shift")), (Variadic(), "ab"), (Keywords(), "ab")])
def test_any_kind_of_forward_can_be_called(module, names):
    tensors = {name: torch.tensor([float(i)]) for i, name in enumerate(names)}
    arrays = example_inputs(module, tensors)
    args, kwargs = call_arguments(module, {name: torch.from_numpy(array) for name, array in arrays.items()})
    assert module(*args, **kwargs).abs() == 1


def test_what_is_no_module_is_refused():
    with pytest.raises(InputError, match=r"a str cannot be exported; give a torch\.nn\.Module"):
        example_inputs("decoder", {})


def test_a_float64_array_stands_for_float32_only_where_it_is_computed_in_float64():
    expected = specs({"x": np.zeros(2, "float32")})
    assert checked({"x": np.zeros(2)}, expected, double=True)["x"].dtype == np.float64
    with pytest.raises(InputError, match="is float64, but the program was exported for float32"):
        checked({"x": np.zeros(2)}, expected)


def test_outputs_are_named_by_what_was_returned():
    y = np.zeros(1)
    assert list(named_outputs(y)) == ["output"]
    assert list(named_outputs((y,))) == ["output_0"]
    assert list(named_outputs([y, y])) == ["output_0", "output_1"]
    assert list(named_outputs({"mel": y, "f0": y})) == ["mel", "f0"]
    assert list(named_outputs({"mel": y, "f0": y}, ("a", "b"))) == ["a", "b"]
    assert list(named_outputs(y, ("audio",))) == ["audio"]


@pytest.mark.parametrize("declared", [("a",), ("a", "a"), "ab"])
def test_declared_names_must_be_one_each(declared):
    with pytest.raises(InputError, match=r"returns 2 output\(s\); give one name, each different"):
        named_outputs((np.zeros(1), np.zeros(1)), declared)


@pytest.mark.parametrize(
    ("value", "sentence"), [(None, "a NoneType"), ((np.zeros(1), 3), "'output_1' is an int"), ((), "returns nothing")]
)
def test_what_is_no_tensor_is_refused(value, sentence):
    with pytest.raises(InputError, match=sentence):
        named_outputs(value)
