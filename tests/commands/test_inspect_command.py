"""`kokoro-nb inspect`: exit status, and a module to compare with."""

import numpy as np
import pytest
from onnx import helper

from kokoro_nb.__main__ import main
from kokoro_nb.studies.record_differences import compare_records
from kokoro_nb.traces.record import read_record
from tests.commands import nets
from tests.corpus.onnx_files import saved


@pytest.fixture
def gain(tmp_path):
    """Write a file that multiplies by 3, where the module of that name multiplies by 2, and takes the exponential."""
    nodes = [helper.make_node("Mul", ["x", "k"], ["m"], name="/gain"), helper.make_node("Exp", ["m"], ["y"])]
    saved(tmp_path / "gain.onnx", nodes, {"x": (1, [3, 4])}, {"y": (1, None)}, {"k": np.float32(3)})
    return tmp_path


def test_a_file_is_compared_with_a_module_and_the_node_is_named(gain, capsys):
    assert main(["inspect", str(gain / "gain.onnx"), "--against", f"{nets.__file__}:gain"]) == 1
    text = capsys.readouterr().out
    assert "/gain (Mul)" in text
    assert "the constant 'k' is 3 in place of 2" in text


def test_a_healthy_file_exits_with_0_and_a_bad_one_with_a_sentence(gain, capsys):
    assert main(["inspect", str(gain / "gain.onnx"), "--json", str(gain / "gain.json")]) == 0
    found = read_record(gain / "gain.json")
    assert [(one["name"], one["verdict"]) for one in found["operators"]] == [("/gain", "pass"), ("node", "pass")]
    assert [(one["name"], one["shape"]) for one in found["inputs"] + found["outputs"]] == [("x", [3, 4]), ("y", [3, 4])]
    assert compare_records(gain / "gain.json", gain / "gain.json").same == 3
    assert "nothing wrong was found" in capsys.readouterr().out
    assert main(["inspect", nets.__file__]) == 2
    assert capsys.readouterr().err.count("\n") == 1
