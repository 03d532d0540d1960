"""What an inspection takes is measured in a process of its own, by the number of nodes."""

import numpy as np
import pytest

from kokoro_nb.benchmarks import inspection_cost


def test_chains_are_inspected_whole_and_compared_with_the_first():
    few, many = inspection_cost.by_nodes((30, 60), width=8)
    assert [(row["nodes"], row["verdict"]) for row in (few, many)] == [(30, "pass"), (60, "pass")]
    assert few[inspection_cost.FIRST] == 1
    assert many[inspection_cost.FIRST] == pytest.approx(many["peak memory (MB)"] / few["peak memory (MB)"])
    assert many["time (s)"] > 0 < many["processor time (s)"]


def test_wider_values_take_more_memory():
    (narrow,), (wide,) = ([*inspection_cost.by_nodes((5,), width)] for width in (8, 2048))
    assert wide["peak memory (MB)"] > narrow["peak memory (MB)"] + 2048**2 * 4 / 1e6


def test_the_whole_model_is_inspected_on_so_many_tokens(shallow):
    row = inspection_cost.of_model(shallow, 8, seed=2)  # on the ids of 0 a bin of nothing turns with rounding
    assert row["tokens"] == 8
    assert row["verdict"] == "pass"
    assert row["nodes"] > 500


def test_what_fails_is_said(tmp_path):
    path = tmp_path / "no.onnx"
    path.write_bytes(np.zeros(10).tobytes())
    with pytest.raises(RuntimeError, match="The inspection failed"):
        inspection_cost._inspected(path)
