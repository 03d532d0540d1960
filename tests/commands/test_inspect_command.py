"""`kokoro-nb inspect`: exit status, a module to compare with, and files that crash or hang what runs them."""

import os
import time
from dataclasses import dataclass

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper
from tqdm import tqdm

from kokoro_nb.__main__ import main
from kokoro_nb.commands import inspect_command
from kokoro_nb.errors import InputError

MODULE = """
import torch

class Gain(torch.nn.Module):
    def forward(self, x):
        return torch.exp(x * 2.0)

def example():
    return Gain(), {"x": torch.linspace(-1, 1, 12).reshape(3, 4)}
"""


@pytest.fixture
def gain(tmp_path):
    """Write a file that multiplies by 3 and takes the exponential, and a module that multiplies by 2."""
    nodes = [helper.make_node("Mul", ["x", "k"], ["m"], name="/gain"), helper.make_node("Exp", ["m"], ["y"])]
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", 1, [3, 4])],
        [helper.make_tensor_value_info("y", 1, None)],
        [numpy_helper.from_array(np.float32(3), "k")],
    )
    opsets = [helper.make_opsetid("", 18)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=10), tmp_path / "gain.onnx")
    (tmp_path / "voice.py").write_text(MODULE)
    return tmp_path


def test_a_file_is_compared_with_a_module_and_the_node_is_named(gain, capsys):
    assert main(["inspect", str(gain / "gain.onnx"), "--against", f"{gain / 'voice.py'}:example"]) == 1
    text = capsys.readouterr().out
    assert "/gain (Mul)" in text
    assert "exactly 1.5 times" in text


def test_a_healthy_file_exits_with_0_and_a_bad_one_with_a_sentence(gain, capsys):
    assert main(["inspect", str(gain / "gain.onnx")]) == 0
    assert main(["inspect", str(gain / "voice.py")]) == 2
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
        inspect_command.apart({"file": "x.onnx", "inputs": Calls(os.abort, ())})
    with pytest.raises(InputError, match=r"hangs: nothing in 1 s after it was begun"):
        inspect_command.apart({"file": "x.onnx", "inputs": Calls(time.sleep, (60,))}, silence=1.0)


def test_a_file_that_needs_too_much_memory_is_bad_input():
    hungry = {"file": "x.onnx", "inputs": Calls(bytearray, (2 * 10**9,))}
    with pytest.raises(InputError, match=r"x.onnx needs more than 1.5 GB of memory; give --memory more"):
        inspect_command.apart(hungry, memory=1.5)


def test_a_command_without_room_for_a_runtime_is_bad_input(gain, capsys):
    assert main(["inspect", str(gain / "gain.onnx"), "--memory", "0.5"]) == 2
    assert "With 0.5 GB no runtime starts" in capsys.readouterr().err


def test_progress_moves_the_bar(capsys):
    with tqdm(unit="node", disable=False, mininterval=0) as bar:
        inspect_command.show(bar, "it was read")
        inspect_command.show(bar, "12 of 300 nodes")
        assert (bar.n, bar.total) == (12, 300)
    told = capsys.readouterr().err
    assert "it was read" in told
    assert "12/300" in told
