"""What crosses the interface of a Core ML file: names, dtypes, shapes, as coremltools makes them."""

import numpy as np
import pytest
import torch
from torch import nn

from kokoro_nb.backends.coreml.conversion import Interface, interface
from kokoro_nb.backends.exported import export_program
from kokoro_nb.errors import InputError
from tests.backends.small import Of

X = {"x": torch.linspace(-1, 1, 12).reshape(1, 3, 4)}


class Mixed(nn.Module):
    """Every dtype that a file can take, a scalar, and outputs that are an input, another output and a constant."""

    def __init__(self):
        super().__init__()
        self.register_buffer("table", torch.arange(3.0))

    def forward(self, x, step, mask, ids):
        y = x * step
        return y, y, mask.logical_not(), ids + 1, ids, self.table, y.sum()


MIXED = {"x": torch.ones(2, 3), "step": torch.tensor(2.0)}
MIXED |= {"mask": torch.tensor([True, False]), "ids": torch.tensor([1, -5])}


@pytest.mark.parametrize("route", ["export", "trace"])
@pytest.mark.parametrize("precision", ["float32", None])
def test_everything_comes_back_under_our_names_as_the_file_has_it(route, precision, run):
    if route == "trace":  # which lets no tensor of the module out as it is
        module = Of(lambda x: (x + 1, x, (x > 0, x.sum())))
        expected = {"output_0": X["x"] + 1, "output_1": X["x"], "output_2_0": (X["x"] > 0) * 1.0}
        results = run(module, X, route, precision)
        assert list(results) == [*expected, "output_2_1"]
    else:
        expected = dict(zip((f"output_{i}" for i in range(7)), Mixed()(**MIXED), strict=True))
        expected["output_2"] = expected["output_2"].float()
        results = run(Mixed(), MIXED, route, precision)
        assert list(results) == list(expected)
        assert {str(one.dtype) for one in results.values()} == {"float32", "int32"}
    for name, value in expected.items():
        np.testing.assert_allclose(results[name], value, atol=2.0**-10)


def test_inputs_are_cast_without_a_word_and_a_scalar_has_an_axis(coreml, spec_of, tmp_path):
    made = coreml.export(Mixed(), MIXED, tmp_path)
    found = interface(spec_of(made), made)
    given = {name: value.numpy() for name, value in MIXED.items()} | {"ids": np.array([2**32 + 7, -(2**31) - 1])}
    arrays = {own: found.to_file(given)[feature] for own, (feature, _) in found.inputs.items()}
    assert list(arrays) == ["x", "step", "mask", "ids"]
    assert [one.shape for one in arrays.values()] == [(2, 3), (1,), (2,), (2,)]
    assert [one.dtype.name for one in arrays.values()] == ["float32"] * 3 + ["int32"]
    assert arrays["mask"].tolist() == [1, 0]
    assert arrays["ids"].tolist() == [7, 2**31 - 1], "they wrap around"


def test_results_are_the_callers_own():
    file = {"a": np.array([np.nan], "float32"), "b": np.array([7], "int32")}
    results = Interface({}, {"y": "a", "n": "b"}).from_file(file)
    assert (list(results), results["n"].dtype, np.isnan(results["y"])) == (["y", "n"], np.int32, [True])
    assert not np.shares_memory(results["y"], file["a"])


def test_a_file_with_other_outputs_than_the_module_is_refused(coreml, spec_of, tmp_path):
    spec = spec_of(coreml.export(Of(torch.sin), X, tmp_path))
    other = export_program(Of(lambda x: (x, x)), X)
    with pytest.raises(InputError, match="1 inputs and 2 outputs, and the file that coremltools makes of it 1 and 1"):
        interface(spec, other)
