"""Programs that were never saved, behind our own inputs and outputs."""

import numpy as np
import pytest

from kokoro_nb.backends.mil.graph import MilGraph
from kokoro_nb.backends.mil.interpreter import Interpreter
from kokoro_nb.backends.signature import TensorSpec
from kokoro_nb.errors import InputError


@pytest.fixture(scope="module")
def graph():
    """Return a program of a scalar, integers and truth values."""
    import coremltools as ct
    from coremltools.converters.mil.mil import Builder as mb
    from coremltools.converters.mil.mil import Function, Placeholder, Program, types

    places = {
        "scale": Placeholder((1,), types.fp32, name="scale"),
        "ids": Placeholder((3,), types.int32, name="ids"),
        "mask": Placeholder((3,), types.bool, name="mask"),
    }
    program = Program()
    with Function(places, opset_version=ct.target.iOS17) as function:
        scale, ids, mask = function.inputs.values()
        kept = mb.select(cond=mask, a=ids, b=mb.mul(x=ids, y=0))
        function.set_outputs([kept, mb.mul(x=scale, y=2.0), mb.logical_not(x=mask)])
    program.add_function("main", function)
    inputs = (TensorSpec("factor", (), "float32"), TensorSpec("ids", (3,), "int64"), TensorSpec("mask", (3,), "bool"))
    outputs = (TensorSpec("kept", (3,), "int64"), TensorSpec("twice", (), "float32"), TensorSpec("rest", (3,), "bool"))
    return MilGraph(Interpreter(program), inputs, outputs)


INPUTS = {"mask": np.array([True, False, True]), "factor": np.array(1.5, "float32"), "ids": np.array([4, 5, 6])}


def test_inputs_and_outputs_are_as_declared(graph):
    outputs = graph.run(INPUTS)
    assert {name: (value.dtype.name, value.shape) for name, value in outputs.items()} == {
        "kept": ("int64", (3,)),
        "twice": ("float32", ()),
        "rest": ("bool", (3,)),
    }
    assert outputs["kept"].tolist() == [4, 0, 6]
    assert outputs["twice"] == 3
    assert outputs["rest"].tolist() == [False, True, False]


def test_refuses_inputs_that_do_not_fit(graph):
    with pytest.raises(InputError, match="'mask' is missing"):
        graph.run({name: INPUTS[name] for name in ("factor", "ids")})
    with pytest.raises(InputError, match="beyond its range"):
        graph.run({**INPUTS, "ids": np.array([4, 5, 2**40])})
