"""`kokoro-nb inspect`: exit status, a module to compare with, and the process that looks into a file.

A file that crashes or hangs its runtime, or needs too much memory, is bad input.
"""

import os
import time
from dataclasses import dataclass

import numpy as np
import pytest
from onnx import helper

from kokoro_nb.__main__ import main
from kokoro_nb.commands import diagnose_command
from kokoro_nb.errors import InputError
from kokoro_nb.reporting.differences import compare_records
from kokoro_nb.traces.record import read_record
from tests.commands import nets
from tests.corpus.onnx_files import saved


@pytest.fixture
def gain(tmp_path):
    """Write a file that multiplies by 3 and takes the exponential; `nets.Gain` multiplies by 2."""
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


@dataclass
class Calls:
    """Calls a function where it is unpickled: in the process that runs the file."""

    function: object
    arguments: tuple

    def __reduce__(self):
        return self.function, self.arguments


def test_what_crashes_or_hangs_is_bad_input():
    with pytest.raises(InputError, match=r"crashes what runs it \(SIGABRT\) after it was begun"):
        diagnose_command.apart({"file": "x.onnx", "inputs": Calls(os.abort, ())})
    with pytest.raises(InputError, match=r"hangs: no progress in 1 s after it was begun"):
        diagnose_command.apart({"file": "x.onnx", "inputs": Calls(time.sleep, (60,))}, silence=1.0)


def test_what_works_in_vain_hangs_and_what_works_for_long_does_not():
    with pytest.raises(InputError, match=r"hangs: no progress in 1 s after it was begun"):
        diagnose_command.apart({"file": "x.onnx", "inputs": Calls(exec, ("while True: pass",))}, silence=1.0)
    long = "import time\nwhile time.process_time() < 3: pass"
    with pytest.raises(InputError, match=r"x\.onnx") as raised:
        diagnose_command.apart({"file": "x.onnx", "inputs": Calls(exec, (long,)), "against": None}, silence=2.0)
    assert "hangs" not in str(raised.value)


def test_a_file_that_needs_too_much_memory_is_bad_input():
    hungry = {"file": "x.onnx", "inputs": Calls(bytearray, (2 * 10**9,))}
    with pytest.raises(InputError, match=r"x.onnx needs more than 1.5 GB of memory; give --memory more"):
        diagnose_command.apart(hungry, memory=1.5)
