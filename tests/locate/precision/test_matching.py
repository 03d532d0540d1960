"""Which float16 operator was which float32 operator: on files that coremltools wrote, and on names made to mislead."""

import pytest
import torch
from torch import nn

from kokoro_nb.backends import BACKENDS
from kokoro_nb.backends.coreml import CoreMl
from kokoro_nb.backends.coreml.conversion import MixedPrecision
from kokoro_nb.backends.mil.saved_program import load_program
from kokoro_nb.locate.precision.lens import matched, operations

REASON = BACKENDS["coreml"].available()
pytestmark = pytest.mark.skipif(REASON is not None, reason=str(REASON))


class Everything(nn.Module):
    """Operators that coremltools names differently from their results, renames, splits, casts and fuses."""

    def __init__(self):
        super().__init__()
        self.linear, self.conv = nn.Linear(6, 6), nn.Conv1d(4, 4, 3, padding=1)

    def forward(self, x, ids, mask):
        first, second = self.linear(x.transpose(1, 2).transpose(1, 2)).chunk(2, dim=1)
        x = torch.cat([torch.atan2(second, first), self.conv(x)], dim=1) * mask
        voiced = x.gt(0.1).float()
        return x.transpose(1, 2) * voiced.transpose(1, 2), ids * 2.5, torch.logical_and(x > 0, x < 1), ids + 1


INPUTS = {
    "x": torch.randn(1, 4, 6),
    "ids": torch.arange(6),
    "mask": torch.tensor([True, False, True, True, False, True]),
}


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    folder, kept = tmp_path_factory.mktemp("artefacts"), {}

    def get(route, precision):
        if (route, precision) not in kept:
            made = CoreMl("coreml", route=route, precision=precision).export(Everything(), INPUTS, folder)
            kept[route, precision] = load_program(made.path).program
        return kept[route, precision]

    return get


def _shapes(program):
    return {variable.name: tuple(variable.shape) for operation in operations(program) for variable in operation.outputs}


def _casts(program, counterparts):
    found = [one for one in operations(program) if one.op_type == "cast"]
    return [one.outputs[0].name for one in found if one.outputs[0].name not in counterparts]


@pytest.mark.parametrize("route", ["export", "trace"])
def test_every_result_of_a_float16_file_is_matched_or_an_inserted_cast(program, route):
    full, half = program(route, "float32"), program(route, None)
    counterparts, unmatched = matched(full, half)
    assert unmatched == ()
    assert {*_shapes(half)} == {*counterparts} | {*_casts(half, counterparts)}
    results, shapes = _shapes(full), _shapes(half)
    for name, (operation, result) in counterparts.items():
        if operation is not None:
            assert results[result] == shapes[name]
    from_inputs = {result for operation, result in counterparts.values() if operation is None}
    assert from_inputs == ({"x"} if route == "export" else {"x", "mask"})  # a trace's mask is a float from the start
    # nothing of the float32 file is missing, and nothing stands for two
    copied = [result for operation, result in counterparts.values() if operation is not None]
    assert sorted(copied) == sorted(results)


def test_the_casts_around_kept_operators_are_inserted_ones(program):
    full = program("export", "float32")
    half = program("export", MixedPrecision(("conv1d", "linear")))
    counterparts, unmatched = matched(full, half)
    assert unmatched == ()
    # out of each of the two, into which x goes as it is; and at the outputs
    assert _casts(half, counterparts) == ["linear_to_fp16", "conv1d_to_fp16", "mul_1", "mul_2"]
    kept = {result for name, (_, result) in counterparts.items() if not name.endswith("_cast_fp16")}
    assert {"conv1d", "linear"} <= kept


def test_another_operator_of_the_same_name_is_no_match(program):
    full, half = program("export", "float32"), program("export", None)
    wrong = next(operation for operation in operations(half) if operation.op_type == "conv")
    name, value = wrong.name, wrong.outputs[0].name
    try:
        wrong.name = "concat_0_cast_fp16"
        assert value in matched(full, half)[1]
        wrong.name = "cat_cast_fp16"  # a concatenation
        assert value in matched(full, half)[1]
    finally:
        wrong.name = name
    assert matched(full, half)[1] == ()
