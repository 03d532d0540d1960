"""Fewer bits on the shallow decoder: each precision is another program, and its error is from float32."""

import pytest

from kokoro_nb.benchmarks import quantisation
from kokoro_nb.benchmarks.interleaved import DISTANCE
from kokoro_nb.benchmarks.precision_programs import BFLOAT16, DYNAMIC, INT4, INT8, RUNTIME, STATIC, TOLERANT
from kokoro_nb.benchmarks.quantisation import LAYERS
from kokoro_nb.errors import InputError

LENGTH = 0.2


@pytest.fixture(scope="module")
def measured(shallow, tmp_path_factory):
    rows, _ = quantisation.measure(shallow, LENGTH, rounds=1, folder=tmp_path_factory.mktemp("artefacts"))
    return {row.program: row for row in rows}


def test_every_precision_is_timed(measured):
    assert list(measured) == [RUNTIME, STATIC, TOLERANT, DYNAMIC, INT8, INT4, BFLOAT16]
    assert all(row.seconds.median > 0 and row.ratio.rounds == 1 for row in measured.values())


def test_fewer_bits_cost_more(measured):
    assert measured[RUNTIME].error < 1e-4
    assert 1e-4 < measured[INT8].error < measured[INT4].error
    assert all(measured[name].error > 1e-4 for name in (STATIC, DYNAMIC, BFLOAT16))
    distance = {name: row.figures[DISTANCE] for name, row in measured.items()}
    assert distance[RUNTIME] < 0.01 < distance[INT8] < distance[INT4]
    assert distance[TOLERANT] < distance[STATIC]


def test_the_model_keeps_its_weights(shallow, measured):
    again, layers = quantisation.measure(shallow, LENGTH, [INT8], rounds=1)
    assert layers == ()
    assert again[0].error == measured[INT8].error


def test_some_layers_do_not_tolerate_int8(measured):
    assert measured[TOLERANT].figures[LAYERS] < measured[STATIC].figures[LAYERS]


def test_an_unknown_precision_is_one_sentence(shallow):
    with pytest.raises(InputError, match="There is no precision 'int2'"):
        quantisation.measure(shallow, LENGTH, ["int2"])
