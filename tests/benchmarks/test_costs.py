"""Finding a fault in programs of two sizes, and inspecting a model: the counts are those of the search and the file."""

import math

import pytest

from kokoro_nb.benchmarks import costs
from kokoro_nb.errors import InputError


def test_both_methods_name_the_fault_and_bisection_keeps_its_limit():
    rows = list(costs.of_diagnosis("eager", [24, 64]))
    assert [row["method"] for row in rows] == ["tracing", "bisection"] * 2
    assert all(row["named"] for row in rows)
    small, large = rows[1], rows[3]
    assert small["operators"] < large["operators"]
    assert small["compilations"] <= small["at most"] < large["at most"] <= math.ceil(math.log2(large["operators"])) + 2
    assert large["compilations"] <= large["at most"]
    assert all(row["time (s)"] > 0 for row in rows)


def test_a_program_too_small_to_search_is_one_sentence():
    with pytest.raises(InputError, match="19 operators are too few"):
        next(costs.of_diagnosis("onnxruntime", [19]))


def test_a_backend_that_is_not_here_is_one_sentence():
    with pytest.raises(InputError, match="cannot run here"):
        next(costs.of_diagnosis("tvm-metal", [100]))


def test_the_whole_model_is_inspected_on_so_many_tokens(shallow):
    row = costs.of_inspection(shallow, 8, seed=2)  # on the ids of 0 a bin of nothing turns with rounding
    assert row["tokens"] == 8
    assert row["verdict"] == "pass"
    assert row["nodes"] > 500
    assert row["time (s)"] > 0
    assert row["memory run (MB)"] > row["memory loaded (MB)"] > 0
