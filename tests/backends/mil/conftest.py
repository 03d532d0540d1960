"""What tests of single operators share.

A module of tests holds `CASES`: operator type -> cases, each a dict of the operator's constants by MIL's names, and of

    inputs      arrays that reach the operator at run time, by MIL's names (a list of them for a list of tensors); an
                array alone is ``x``
    expected    what it must give: an array, a tuple of arrays, a function of `inputs` as float64 tensors, or left out
                for what coremltools' own value inference gives
    opset       name of the operator set, iOS17 if left out
    half        False where float16 cannot hold the numbers, or where MIL takes float32 alone
    rtol        of float32, 2e-6 if left out: some ten roundings
    strict      of float16 rounded at every step, 12 half steps if left out

A constant that is a list becomes an array of int32 or bool, a float a float32.
"""

import copy
from types import SimpleNamespace

import numpy as np
import pytest

from kokoro_nb.backends.mil.interpreter import Interpreter
from kokoro_nb.backends.mil.rounding import FLOAT32, FLOAT64, STRICT

HALF_STEP = 2.0**-11  # half the distance of float16 numbers, relative
HALF_FLOOR = 2.0**-25  # and absolute, below the smallest normal one
OPTIONS = ("inputs", "expected", "opset", "half", "rtol", "strict")


def _program(inputs, body, opset="iOS17"):
    """Return a program whose outputs `body` makes of its inputs.

    Parameters
    ----------
    inputs : dict
        Name of an input -> its shape, or its shape and MIL's name of its dtype. One called ``state...`` is a state.
    body : callable
        Called with the inputs by name.
    """
    import coremltools as ct
    from coremltools.converters.mil.mil import Function, Placeholder, Program, types
    from coremltools.converters.mil.mil.program import StateTensorPlaceholder

    places = {}
    for name, about in inputs.items():
        shape, dtype = about if about and isinstance(about[0], tuple) else (about, "fp32")
        dtype = types.string_to_builtin(dtype)
        places[name] = (
            StateTensorPlaceholder(shape, dtype, name=name)
            if name.startswith("state")
            else Placeholder(shape, dtype, name=name, allow_rank0_input=True)
        )
    program = Program()
    with Function(places, opset_version=getattr(ct.target, opset)) as function:
        results = body(**function.inputs)
        function.set_outputs(list(results) if isinstance(results, tuple | list) else [results])
    program.add_function("main", function)
    return program


def _constant(value):
    if isinstance(value, list):
        return np.array(value, bool if isinstance(value[0], bool) else "int32")
    return np.float32(value) if type(value) is float else value


def _build(kind, inputs, attributes, opset="iOS17", constant=False):
    """Return a program of one operator, its inputs as arrays, and its results; the inputs may be constants of it."""
    from coremltools.converters.mil.mil import Builder as mb
    from coremltools.converters.mil.mil.types import builtin_to_string
    from coremltools.converters.mil.mil.types.type_mapping import numpy_type_to_builtin_type

    inputs = inputs if isinstance(inputs, dict) else {"x": inputs}
    flat = {f"{name}_{i}": array for name, value in inputs.items() for i, array in enumerate(_listed(value))}
    dtypes = {name: builtin_to_string(numpy_type_to_builtin_type(array.dtype)) for name, array in flat.items()}
    results = []

    def body(**made):
        made = made or {name: mb.const(val=np.array(array)[()]) for name, array in flat.items()}
        arguments = {
            name: [made[f"{name}_{i}"] for i in range(len(value))] if isinstance(value, list) else made[f"{name}_0"]
            for name, value in inputs.items()
        }
        # a copy, because coremltools writes into some: it makes negative bounds positive
        constants = copy.deepcopy({name: _constant(value) for name, value in attributes.items()})
        found = getattr(mb, kind)(**arguments, **constants, name="result")
        results.extend(found if isinstance(found, tuple | list) else [found])
        return results

    places = {} if constant else {name: (array.shape, dtypes[name]) for name, array in flat.items()}
    return _program(places, body, opset), flat, results


def _listed(value):
    return value if isinstance(value, list) else [value]


def _run(kind, inputs, opset="iOS17", arithmetic=FLOAT32, **attributes):
    program, flat, _ = _build(kind, inputs, attributes, opset)
    return tuple(Interpreter(program, arithmetic).run(flat).values())


def _expected(kind, case, attributes):
    import torch

    wanted, inputs = case.get("expected"), case["inputs"]
    if wanted is None:
        with np.errstate(all="ignore"):
            _, _, results = _build(kind, inputs, attributes, case.get("opset", "iOS17"), constant=True)
        assert all(result.val is not None for result in results), f"coremltools infers no value of {kind}"
        return tuple(np.asarray(result.val) for result in results)
    if callable(wanted):
        wanted = wanted(**{name: _each(value, double) for name, value in inputs.items()})
    wanted = wanted if isinstance(wanted, tuple) else (wanted,)
    return tuple(value.numpy() if isinstance(value, torch.Tensor) else np.asarray(value) for value in wanted)


def _each(value, change):
    return [change(one) for one in value] if isinstance(value, list) else change(value)


def double(array):
    """Return an array as a tensor, of float64 where it is one of floats."""
    import torch

    tensor = torch.tensor(array)
    return tensor.double() if tensor.is_floating_point() else tensor


def _compare(results, expected, rtol, what, floor=0.0):
    assert len(results) == len(expected)
    for result, wanted in zip(results, expected, strict=True):
        assert result.shape == wanted.shape, what
        assert result.dtype.kind == wanted.dtype.kind, what
        if result.dtype.kind != "f":
            np.testing.assert_array_equal(result, wanted, err_msg=what)
            continue
        result, wanted = result.astype(np.float64), wanted.astype(np.float64)
        finite = np.isfinite(wanted)
        np.testing.assert_array_equal(result[~finite], wanted[~finite], err_msg=what)
        assert np.isfinite(result[finite]).all(), what
        atol = rtol * np.abs(wanted[finite]).max(initial=0) + floor
        np.testing.assert_allclose(result[finite], wanted[finite], rtol=rtol, atol=atol, err_msg=what)


def _half(value):
    return value.astype(np.float16) if isinstance(value, np.ndarray | np.generic) and value.dtype.kind == "f" else value


def _check(kind, case):
    """Compare an operator with what it must give, in every arithmetic."""
    case = {**case, "inputs": case["inputs"] if isinstance(case["inputs"], dict) else {"x": case["inputs"]}}
    attributes = {name: _constant(value) for name, value in case.items() if name not in OPTIONS}
    inputs, opset, rtol = case["inputs"], case.get("opset", "iOS17"), case.get("rtol", 2e-6)
    expected = _expected(kind, case, attributes)
    _compare(_run(kind, inputs, opset, **attributes), expected, rtol, "float32")
    exact = _run(kind, inputs, opset, FLOAT64, **attributes)
    _compare(exact, expected, 1e-11 if callable(case.get("expected")) else rtol, "float64")
    floats = [one for value in inputs.values() for one in _listed(value) if one.dtype.kind == "f"]
    if not floats or not case.get("half", True):
        return
    inputs, attributes = ({name: _each(value, _half) for name, value in both.items()} for both in (inputs, attributes))
    truth, once, strict = (_run(kind, inputs, opset, mode, **attributes) for mode in (FLOAT64, FLOAT32, STRICT))
    # rounded once: half a step, and what float32 did before, which is far below
    _compare(once, truth, 1.01 * HALF_STEP, "float16 rounded once", HALF_FLOOR)
    # rounded at every step: these operators have some ten steps on their longest way
    _compare(strict, truth, case.get("strict", 12 * HALF_STEP), "float16 rounded at every step", 12 * HALF_FLOOR)
    assert all(one.dtype == two.dtype for one, two in zip(once, strict, strict=True))


def drawing(seed=0):
    """Return a function that draws normal numbers of a shape, others at each call."""
    generator = np.random.default_rng(seed)
    return lambda *shape: generator.normal(size=shape).astype("float32")


@pytest.fixture(scope="session")
def mil():
    """Return functions: `run` an operator, `check` it against its case, `build` a program of it, or any `program`."""
    return SimpleNamespace(run=_run, check=_check, build=_build, program=_program)


@pytest.fixture(scope="session")
def mb():
    """Return what builds operators of a program."""
    from coremltools.converters.mil.mil import Builder

    return Builder
