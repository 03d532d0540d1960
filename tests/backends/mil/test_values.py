"""Variables of a program as tensors."""

import numpy as np
import pytest
import torch

from kokoro_nb.backends.mil.execution_plan import constant, declared_dtype, fits, shown, torch_dtype


@pytest.fixture(scope="module")
def variables():
    import coremltools as ct
    from coremltools.converters.mil.mil import Builder as mb
    from coremltools.converters.mil.mil import Function

    values = {
        "matrix": np.ones((2, 3), "float16"),
        "number": np.float32(2.5),
        "whole": np.array([1, 2], "int32"),
        "truth": True,
        "text": "same",
        "texts": np.array(["a", "b"]),
        "byte": np.array([1, 255], "uint8"),
    }
    with Function({}, opset_version=ct.target.iOS17) as function:
        made = {name: mb.const(val=value, name=name) for name, value in values.items() if name != "texts"}
        made["list"] = mb.make_list(init_length=1, elem_shape=(2,))
        function.set_outputs([made["matrix"]])
    return made


def test_constants(variables):
    assert constant(variables["matrix"]).dtype == torch.float16
    assert constant(variables["number"]).shape == ()
    assert constant(variables["whole"]).tolist() == [1, 2]
    assert constant(variables["truth"]).dtype == torch.bool
    assert constant(variables["text"]) == "same"
    assert constant(variables["byte"]).tolist() == [1, 255]


def test_declared_dtypes(variables):
    expected = {"matrix": torch.float16, "number": torch.float32, "whole": torch.int32, "truth": torch.bool}
    assert {name: declared_dtype(variables[name]) for name in expected} == expected
    assert declared_dtype(variables["text"]) is None
    assert declared_dtype(variables["list"]) is None


def test_integers_of_few_bits_are_kept_in_eight():
    from coremltools.converters.mil.mil import types

    assert torch_dtype(types.string_to_builtin("int4")) == torch.int8
    assert torch_dtype(types.string_to_builtin("uint1")) == torch.uint8


def test_a_symbol_stands_for_any_size():
    from coremltools.converters.mil.mil import get_new_symbol

    assert fits((2, 7), (2, get_new_symbol()))
    assert not fits((2, 7), (3, get_new_symbol()))
    assert not fits((2,), (2, get_new_symbol()))


def test_what_is_shown_is_the_value_itself_and_read_only():
    tensor = torch.ones(3)
    array = shown({"x": tensor, "mode": "same", "parts": [tensor]})["x"]
    assert np.shares_memory(array, tensor.numpy())
    assert not array.flags.writeable
    assert shown({"parts": [tensor], "mode": "same", "none": None})["mode"] == "same"
