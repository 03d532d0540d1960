"""The precision lens on programs small enough to work out by hand."""

import numpy as np
import pytest
import torch
from torch import nn

from kokoro_nb.backends import BACKENDS
from kokoro_nb.errors import InputError
from kokoro_nb.locate.precision.lens import lens
from tests.locate.function_modules import Function

REASON = BACKENDS["coreml"].available()
pytestmark = pytest.mark.skipif(REASON is not None, reason=str(REASON))


class Tone(nn.Module):
    """A sine of a phase that grows to 5000 radians."""

    def forward(self, x):
        return torch.sin(1000 * x)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("artefacts")


@pytest.fixture
def seen(folder):
    """Return a function that puts a function of `x` under the lens."""
    return lambda function, x: lens(Function(function), {"x": x}, folder)


def test_a_sine_of_a_large_phase_is_where_the_trouble_begins(folder):
    found = lens(Tone(), {"x": torch.linspace(0, 5, 1000)}, folder)
    # the product is 5000 +- 2: an error of 4e-4 of the peak, as good as any
    assert [(row.type, row.verdict) for row in found.rows] == [("input", "pass"), ("mul", "pass"), ("sin", "fail")]
    sine = found.rows[2]
    assert found.first is sine
    assert found.sources == found.phases == (sine,)
    assert sine.cause == "conditioning"
    assert sine.phase == 5000
    assert sine.phase_step == 4
    # the sine itself is rounded once; what it is given is off by up to 2 radians
    assert sine.local <= 2.0**-11
    assert 1 < sine.inherited <= 2
    assert sine.error == pytest.approx(sine.inherited, abs=1e-3)
    # float32 has a step of 5e-4 there, and 2.4e-4 of it shows: 2^13 of that is more than 1
    assert 1e-4 < sine.floor < 5e-4
    assert found.outputs["sin"].of_peak == sine.error
    assert found.unmatched == ()


def test_a_product_beyond_65504_is_infinite_and_said_to_be_so(seen):
    found = seen(lambda x: (x * 300) * (x * 300) * 1e-4, torch.tensor([1.0, 0.5]))
    product = found.first
    assert (product.type, product.cause, product.finite, product.error) == ("mul", "range", 0.5, np.inf)
    assert product.peak == 90000
    assert product.margin_db == pytest.approx(20 * np.log10(65504 / 90000))
    assert product.margin_db < 0
    assert found.sources == (product,)
    assert found.worst.finite == 0.5


def test_a_small_square_is_lost_to_underflow(seen):
    found = seen(lambda x: torch.sqrt(x * x), torch.full((4,), 1e-4))
    square = found.first  # 1e-8, and float16's smallest number is 6e-8
    assert (square.type, square.cause, square.error) == ("mul", "rounding", 1.0)
    assert square.local == pytest.approx(1, rel=2.0**-10)  # against the square of the rounded input
    assert square.inherited < 2.0**-9  # a relative error of 2^-11 in the input, squared
    assert found.worst.of_peak == 1


def test_where_float32_is_lost_too_nothing_is_said_against_float16(seen):
    # 3e7 radians: float32 has a step of 2 there as well
    found = seen(lambda x: torch.sin(x * 1e3 * 1e3), torch.linspace(29, 30, 50))
    assert [row.verdict for row in found.rows if row.type == "sin"] == ["unknown"]
    assert found.first.cause == "range"  # before it: 3e7 is above 65504


def test_a_sound_program_has_no_first_result(folder):
    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(16, 16), nn.Tanh(), nn.LayerNorm(16), nn.Linear(16, 4))
    found = lens(module, {"input": torch.randn(3, 16)}, folder)
    assert found.first is None
    assert found.sources == ()
    assert len(found.rows) == 5  # input, four operators
    assert {row.dtype for row in found.rows} == {"float16"}
    assert all(0 < row.error < row.limit for row in found.rows)
    names = ["input:input", "0:linear", "1:tanh", "2:layer_norm", "3:linear"]
    assert [row.name for row in found.rows] == names


def test_weights_that_float16_rounds_are_the_operators_own_error(folder):
    module = nn.Linear(1, 1, bias=False)
    nn.init.constant_(module.weight, 1 + 2.0**-11 - 2.0**-20)  # rounds to 1
    found = lens(module, {"input": torch.ones(1, 1)}, folder)
    product = next(row for row in found.rows if row.type == "linear")
    assert product.local == pytest.approx(2.0**-11, rel=1e-2)
    assert product.inherited == product.floor == 0


def test_integers_are_compared_and_truth_values_looked_through(seen):
    found = seen(lambda x: torch.where(x > 0.5, torch.round(x * 1000), x * 0).long(), torch.tensor([0.2, 2.0009]))
    integer = next(row for row in found.rows if row.dtype == "int32")
    assert integer.error == pytest.approx(1 / 2001)  # 2.0009 is 2 in float16
    assert "greater" not in {row.type for row in found.rows}
    choice = next(row for row in found.rows if row.type == "select")
    assert "x" in choice.reads


def test_values_that_are_not_finite_in_float32_are_no_reference(seen):
    found = seen(lambda x: torch.sqrt(x) + 1, torch.tensor([-1.0, 1.0]))
    assert [row.verdict for row in found.rows if row.type in ("sqrt", "add")] == ["unknown", "unknown"]


def test_a_module_that_cannot_be_converted_is_refused(folder):
    with pytest.raises(InputError, match="nothing to compare, for coreml-float32 failed when lowered"):
        lens(Function(lambda x: torch.multiply(x, x)), {"x": torch.ones(2)}, folder)
