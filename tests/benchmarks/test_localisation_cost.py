"""Finding a fault in programs of two sizes: both methods name it, and the counts are those of the search."""

import math

import pytest

from kokoro_nb.benchmarks.localisation_cost import AT_MOST, BISECTION, COMPILATIONS, NAMED, OPERATORS, TRACE, measure
from kokoro_nb.errors import InputError


def test_both_methods_name_the_fault_and_bisection_keeps_its_limit():
    rows = list(measure("eager", [24, 64]))
    assert [row["method"] for row in rows] == [TRACE, BISECTION] * 2
    assert all(row[NAMED] for row in rows)
    small, large = rows[1], rows[3]
    assert small[OPERATORS] < large[OPERATORS]
    assert small[COMPILATIONS] <= small[AT_MOST] < large[AT_MOST] <= math.ceil(math.log2(large[OPERATORS])) + 2
    assert large[COMPILATIONS] <= large[AT_MOST]
    assert all(row["search (s)"] > 0 and row["one export (s)"] > 0 for row in rows)


def test_a_program_too_small_to_search_is_one_sentence():
    with pytest.raises(InputError, match="19 operators are too few"):
        next(measure("onnxruntime", [19]))


def test_a_backend_that_is_not_here_is_one_sentence():
    with pytest.raises(InputError, match="cannot run here"):
        next(measure("tvm-metal", [100]))
