"""Sines and cosines that LLVM can turn into vectors; TVM calls the C library for every single one.

The argument is reduced to within a quarter of pi by a multiple of pi / 2, in float64, and a polynomial taken there:
FreeBSD's msun, ``e_rem_pio2f.c``, ``k_sinf.c`` and ``k_cosf.c``. That holds for arguments below 2**28; a row with a
larger one in it, or with inf or NaN, is left to the C library as before.
"""

from typing import Any

from kokoro_nb.backends.tvm.schedule.structure import Nest, nests, same, spliced

SINE = "sine"  # the names of the blocks begin so; LLVM makes vectors of them only where they stand alone
QUARTERS = {"tirx.sin": 0, "tirx.cos": 1}  # by how many quarters of a turn the function is ahead of the sine
LARGEST = 0x4D800000  # the bits of 2**28
MAGNITUDE = 0x7FFFFFFF  # all bits but the sign
TWO_OVER_PI = 6.36619772367581382433e-01
HALF_PI = 1.57079631090164184570  # the first 25 bits, so that multiples are exact
HALF_PI_REST = 1.58932547735281966916e-08
SINES = (-0.166666666416265235595, 0.0083333293858894631756, -0.000198393348360966317347, 0.0000027183114939898219064)
COSINES = (-0.499999997251031003120, 0.0416666233237390631894, -0.00138867637746099294692, 0.0000243904487962774090654)


def with_sines(function: Any) -> Any:
    """Return `function` with its sines and cosines written out, after the largest argument of each row.

    What is written out is a nest that computes one of them of a buffer, element by element, as Relax writes it.
    """
    for number, nest in enumerate(nests(function) or []):
        if _is_sine(nest):
            argument, result = nest.stores[0].value.args[0].source, nest.stores[0].buffer
            function = spliced(function, nest, _rows(nest, number), [argument, result])
    return function


def _is_sine(nest: Nest) -> bool:
    """Return whether the nest computes one of `QUARTERS` of rows of float32."""
    from tvm import ir

    call = None if nest.store is None else nest.store.value
    if not isinstance(call, ir.Call) or call.op.name not in QUARTERS or not isinstance(call.args[0], ir.TensorLoad):
        return False
    (load,), places = call.args, nest.stores[0].indices
    ordered = len(places) > 1 and len(load.indices) == len(places) and all(map(same, load.indices, places))
    return ordered and str(load.source.dtype) == "float32"


def _rows(nest: Nest, number: int) -> Any:
    """Return the function of the buffer, row by row."""
    from tvm import te, tirx

    call = nest.stores[0].value
    shape = call.args[0].source.shape
    *rows, width = shape
    source = te.placeholder(shape, "float32")
    axis = te.reduce_axis((0, width), "k")
    magnitude = lambda *i: tirx.reinterpret("int32", source[(*i, axis.var)]) & MAGNITUDE  # noqa: E731
    top = te.compute(rows, lambda *i: te.max(magnitude(*i), axis=axis), name=f"largest_{number}")

    def element(*place: Any) -> Any:
        value = source[place]
        exact = tirx.call_intrin("float32", call.op.name, value)
        return tirx.if_then_else(top[place[:-1]] < LARGEST, sine(value, QUARTERS[call.op.name]), exact)

    return te.create_prim_func([source, te.compute(shape, element, name=f"{SINE}_{number}")])


def sine(value: Any, quarters: int) -> Any:
    """Return the expression of the sine of `value` (float32, radians) plus `quarters` times pi / 2, below 2**28."""
    from tvm import tirx

    def double(number: float) -> Any:
        return tirx.const(number, "float64")

    def series(coefficients: tuple[float, ...], square: Any) -> Any:
        a, b, c, d = map(double, coefficients)
        return a + square * (b + square * (c + square * d))

    wide = value.astype("float64")
    quarter = tirx.nearbyint(wide * double(TWO_OVER_PI)).astype("int32")
    turns = quarter.astype("float64")  # by way of an integer, so that it is never -0, and the sine of -0 is
    rest = wide - turns * double(HALF_PI) - turns * double(HALF_PI_REST)
    square = rest * rest
    even, odd = (double(1) + square * series(coefficients, square) for coefficients in (SINES, COSINES))
    quadrant = quarter + tirx.const(quarters, "int32")
    height = tirx.Select((quadrant & 1) != 0, odd, rest * even)
    return tirx.Select((quadrant & 2) != 0, -height, height).astype("float32")
