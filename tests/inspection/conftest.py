"""Small ONNX files that the tests of this room make themselves."""

from contextlib import ExitStack

import numpy as np
import pytest
from onnx import TensorProto, helper

from kokoro_nb.run_apart import run_apart
from tests.corpus.file_faults import wrong_runtime
from tests.corpus.onnx_files import saved
from tests.inspection import quantised_files

FLOATS = {"float32": TensorProto.FLOAT, "float16": TensorProto.FLOAT16, "float64": TensorProto.DOUBLE}


@pytest.fixture
def save(tmp_path):
    """Return a function that writes nodes, inputs (name -> shape) and constants as a file and returns its path."""

    def write(nodes, inputs, outputs, constants=None, dtype="float32", opset=18, name="model.onnx", **types):
        shapes = (inputs, dict.fromkeys(outputs))
        ends = ({one: (types.get(one, FLOATS[dtype]), shape) for one, shape in some.items()} for some in shapes)
        return saved(tmp_path / name, nodes, *ends, constants, opset, "com.microsoft")

    return write


@pytest.fixture
def node():
    """Return ``onnx.helper.make_node`` with the operator's output first named after it."""
    return helper.make_node


@pytest.fixture
def written(save):
    """Return a function that writes steps, each an operator with names of what it reads and gives, and attributes.

    Of the constants it keeps those that are read.
    """

    def write(name, steps, constants, inputs, outputs="y", **types):
        nodes = [
            helper.make_node(kind, read.split(), made.split(), name=f"{kind} {made}", **dict(*attributes))
            for kind, read, made, *attributes in steps
        ]
        read = {one for node in nodes for one in node.input}
        held = {one: array for one, array in constants.items() if one in read}
        return save(nodes, inputs, outputs.split(), held, name=name, **types)

    return write


@pytest.fixture
def source(save, node):
    """Return a function that writes a harmonic source: a running phase at 24 kHz, its sine, and what may come after."""

    def write(samples, dtype="float32", constants=None, after=()):
        held = {"rate": np.array(9 / 24000, dtype), "turn": np.array(2 * np.pi, dtype), "axis": np.int64(1)}
        nodes = [
            node("Mul", ["f0", "rate"], ["step"], name="/rate"),
            node("CumSum", ["step", "axis"], ["cycles"], name="/cumsum"),
            node("Mul", ["cycles", "turn"], ["phase"], name="/phase"),
            node("Sin", ["phase"], ["sine" if after else "y"], name="/sin"),
        ]
        about = {"dtype": dtype, "name": f"{dtype}.onnx"}
        return save([*nodes, *after], {"f0": [1, samples]}, ["y"], held | (constants or {}), **about)

    return write


def script_says(path):
    """Return what a script of a finding prints in a process without this package: it is short and shows an error."""
    text = path.read_text()
    assert len(text.splitlines()) <= 30
    assert "kokoro" not in text.replace(str(path.parent), "")
    done = run_apart(["-I", path], folder="/")
    assert done.status == 1
    return done.stdout


@pytest.fixture
def spoil():
    """Return a function that has the runtime give something else for one value, wherever it is an output."""
    with ExitStack() as spoilt:
        yield lambda name, change: spoilt.enter_context(wrong_runtime(name, change))


@pytest.fixture(scope="session")
def quantised(tmp_path_factory):
    """Return the folder of the quantised files: see `quantised_files`."""
    return quantised_files.write(tmp_path_factory.mktemp("quantised"))
