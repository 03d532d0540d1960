"""The search for operators that must stay float32, on modules whose answer is known."""

import pytest
import torch
from torch import nn

from kokoro_nb.backends import BACKENDS
from kokoro_nb.backends.coreml.conversion import MixedPrecision
from kokoro_nb.errors import InputError
from kokoro_nb.locate.precision.keep_float32 import repair
from kokoro_nb.locate.precision.lens import lens, operations

REASON = BACKENDS["coreml"].available()
pytestmark = pytest.mark.skipif(REASON is not None, reason=str(REASON))
TOLERANCE = 1e-2


class Source(nn.Module):
    """A tone from its frequency, and a well-behaved rest: only the way to the sine needs float32."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.rest = nn.Conv1d(1, 4, 5, padding=2)

    def forward(self, x):
        return torch.tanh(self.rest(torch.sin(torch.cumsum(x, dim=-1) * 6.0)))


INPUTS = {"x": torch.full((1, 1, 500), 0.7) + 0.01 * torch.arange(500) / 500}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("artefacts")


@pytest.fixture(scope="module")
def found(folder):
    return repair(Source(), INPUTS, TOLERANCE, folder)


def test_the_way_to_the_sine_is_found_and_nothing_else(found):
    assert found.mixed.keep == ("cumsum", "mul", "sin")
    assert [name.rpartition(":")[2] for name in found.kept] == ["cumsum", "mul", "sin"]
    assert found.operators == 5  # these, a convolution, the tanh
    assert found.minimal


def test_it_starts_from_the_operators_that_a_diagnosis_names(found, folder):
    short = repair(Source(), INPUTS, TOLERANCE, folder, shrink=False, start=found.kept)
    assert (short.trials, short.mixed) == (2, found.mixed)
    fewer = repair(Source(), INPUTS, TOLERANCE, folder, start=found.kept[:1])
    assert fewer.mixed == found.mixed, "what is not enough is not kept to"


def test_it_is_good_where_float16_is_not(found):
    assert found.before.finite == found.after.finite == 1
    assert found.before.of_peak > 10 * TOLERANCE
    assert 0 < found.after.of_peak <= TOLERANCE
    assert found.as_dict()["mixed: error (of peak)"] == found.after.of_peak


def test_the_converted_file_computes_those_in_float32_and_holds_under_the_lens(found, folder):
    seen = lens(Source(), INPUTS, folder, precision=found.mixed)
    assert {row.value for row in seen.rows if row.dtype == "float32"} == {*found.mixed.keep}
    assert seen.first is None
    assert seen.worst.of_peak == found.after.of_peak


def test_leaving_any_of_them_out_is_not_good(found, folder):
    # the known-bad controls: each is really converted
    for name in found.mixed.keep:
        rest = tuple(other for other in found.mixed.keep if other != name)
        assert lens(Source(), INPUTS, folder, precision=MixedPrecision(rest)).worst.of_peak > TOLERANCE


def test_the_code_to_paste_does_the_same_in_a_plain_conversion(found, folder):
    import coremltools

    exported = torch.export.export(Source().eval(), (INPUTS["x"],)).run_decompositions({})
    pasted = {"coremltools": coremltools}
    exec(found.mixed.as_code(), pasted)
    precision = pasted["compute_precision"]
    model = coremltools.convert(exported, compute_precision=precision, skip_model_load=True)
    kept = {
        operation.outputs[0].name
        for operation in operations(model._mil_program)
        if operation.op_type != "cast" and operation.outputs[0].dtype == coremltools.converters.mil.mil.types.fp32
    }
    assert kept == set(found.mixed.keep)


def test_where_float16_is_good_enough_nothing_is_kept(folder):
    found = repair(nn.Sequential(nn.Linear(8, 8), nn.Tanh()), {"input": torch.randn(2, 8)}, TOLERANCE, folder)
    assert found.mixed.keep == ()
    assert found.before == found.after
    assert found.trials <= 3


def test_a_range_that_float16_does_not_have_is_kept_with_what_reads_it(folder):
    class Loud(nn.Module):
        def forward(self, x):
            return torch.tanh((x * 300) * (x * 300) * 1e-5)

    found = repair(Loud(), {"x": torch.tensor([1.0, 0.5])}, TOLERANCE, folder)
    assert found.before.of_peak > TOLERANCE
    assert found.after.of_peak <= TOLERANCE
    assert len(found.mixed.keep) == 2  # the product, and the one that makes it small again


def test_ordinary_rounding_has_no_source_and_everything_is_tried(folder):
    module = nn.Sequential(nn.Linear(8, 8), nn.Tanh())
    found = repair(module, {"input": torch.randn(2, 8)}, 1e-6, folder)
    assert len(found.mixed.keep) == found.operators == 2
    assert found.after.of_peak == 0


def test_what_float32_does_not_have_either_cannot_be_repaired(folder):
    class Nothing(nn.Module):
        def forward(self, x):
            return torch.sqrt(x)

    with pytest.raises(InputError, match="With every operator in float32 the error is still nan"):
        repair(Nothing(), {"x": torch.tensor([-1.0, 4.0])}, TOLERANCE, folder)
