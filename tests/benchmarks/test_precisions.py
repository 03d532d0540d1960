"""Fewer bits on the narrow decoder: each precision is another program, and the price is told against float32."""

import pytest

from kokoro_nb.benchmarks import precisions
from kokoro_nb.benchmarks.reduction import BFLOAT16, BORNE, DYNAMIC, INT4, INT8, RUNTIME, STATIC
from kokoro_nb.errors import InputError

LENGTH = 0.2


@pytest.fixture(scope="module")
def measured(narrow, tmp_path_factory):
    rows, _ = precisions.measure(narrow, LENGTH, rounds=1, folder=tmp_path_factory.mktemp("artefacts"))
    return {row.program: row for row in rows}


def test_every_precision_is_timed(measured):
    assert list(measured) == [RUNTIME, STATIC, BORNE, DYNAMIC, INT8, INT4, BFLOAT16]
    assert all(row.seconds.median > 0 and row.ratio.rounds == 1 for row in measured.values())


def test_fewer_bits_cost_more(measured):
    assert measured[RUNTIME].error < 1e-4
    assert 1e-4 < measured[INT8].error < measured[INT4].error
    assert all(measured[name].error > 1e-4 for name in (STATIC, DYNAMIC, BFLOAT16))
    assert measured[RUNTIME].distance < 0.01 < measured[INT8].distance < measured[INT4].distance


def test_the_model_keeps_its_weights(narrow, measured):
    again, layers = precisions.measure(narrow, LENGTH, [INT8], rounds=1)
    assert layers == ()
    assert again[0].error == measured[INT8].error


def test_the_row_of_a_table(measured):
    told = measured[INT4].as_dict()
    assert told["program"] == INT4
    assert told["log-spectral distance (dB)"] == measured[INT4].distance


def test_fewer_layers_cost_less(measured):
    assert measured[BORNE].layers < measured[STATIC].layers
    assert measured[BORNE].distance < measured[STATIC].distance


def test_an_unknown_precision_is_one_sentence(narrow):
    with pytest.raises(InputError, match="There is no precision 'int2'"):
        precisions.measure(narrow, LENGTH, ["int2"])
