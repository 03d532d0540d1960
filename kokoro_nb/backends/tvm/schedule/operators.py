"""Convolutions, matrix products, sines and cosines written so that processors compute them fast.

TVM takes them in the place of its own, see ``customize_legalize_map`` of `tvm.relax.transform.LegalizeOps`.
"""

from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

COLUMNS, TILE = "block_columns", "block_tile"  # the name of what is copied, and the annotation of what is summed
SUMS, ELEMENTS = {"op_pattern": 4}, {"op_pattern": 2}  # TVM's kinds of functions: which may be joined to which
Legalisation = Callable[[Any, Any], Any]  # (block builder, call) -> expression
Written = Callable[[Any, Any], Any]  # two tensors -> the tensor of the result


def legalisations(target: Any) -> dict[str, Legalisation]:
    """Return how each operator that is written here becomes a function of loops, by its name in Relax."""
    blocks = Blocks(target)

    def legalisation(write: Callable[[Any, Blocks, list[int], list[int]], Written | None]) -> Legalisation:
        def legalise(builder: Any, call: Any) -> Any:
            shapes = [_shape(one) for one in call.args]
            written = write(call, blocks, *shapes) if all(shapes) else None
            if written is None:
                return _as_it_is(builder, call)
            return builder.call_te(written, *call.args, primfunc_attrs=SUMS)

        return legalise

    sums = {"relax.nn.conv1d": _conv1d, "relax.nn.conv1d_transpose": _conv1d_transpose, "relax.matmul": _matmul}
    return {name: legalisation(write) for name, write in sums.items()} | {"relax.sin": _sine(0), "relax.cos": _sine(1)}


def _as_it_is(builder: Any, call: Any) -> Any:
    """Have TVM write the operator."""
    return call.op.get_attr("FLegalize")(builder, call)


def _shape(value: Any) -> list[int]:
    """Return the shape of a tensor of float32; empty for a scalar, where a size is open or 0, and of other numbers."""
    from tvm import tirx

    sizes = getattr(value.ty.shape, "values", ()) if value.ty.dtype == "float32" else ()
    known = all(isinstance(size, tirx.IntImm) and int(size) for size in sizes)
    return [int(size) for size in sizes] if known else []


class Blocks:
    """How sums of products are computed on a processor: in blocks that stay in its registers until they are complete.

    One factor, the *columns*, is read along the last axis of the result, a vector of neighbours at once; of the other,
    the *rows*, one number is multiplied with the whole vector.
    """

    def __init__(self, target: Any):
        from tvm.target.codegen import llvm_cpu_has_features

        wide, middle, neon = (llvm_cpu_has_features(name, target) for name in ("avx512f", "avx2", "neon"))
        self.lanes = 16 if wide else 8 if middle else 4  # numbers of float32 in a vector
        self.registers = 32 if wide or neon else 16

    def tile(self, rows: int, columns: int) -> tuple[int, int]:
        """Return rows and vectors of the block that computes `rows` times `columns` results in the fewest cycles.

        Of every tap, `r` rows and `v` vectors cost ``r * v`` multiplications, two per cycle, and the loading of `r`
        numbers and `v` vectors, two per cycle, of which a vector counts twice, since it straddles two lines of the
        cache. The two go on side by side, though never quite; fewer than eight sums at a time wait for each other. What
        sticks out of the result is computed in vain.
        """

        def cycles(block: tuple[int, int]) -> float:
            r, v = block
            loads = r + 2 * v
            return -(-rows // r) * -(-columns // (v * self.lanes)) * (max(r * v, loads, 8) + loads / 10)

        sizes = ((r, v) for r in range(1, 9) for v in range(1, 9) if r * v + v + 1 <= self.registers)
        return min(sizes, key=cycles)

    def sums(
        self,
        shape: Sequence[int],
        summed: Sequence[int],
        columns: Any,
        term: Callable[..., Any],
        before: int = 0,
        beyond: int = 0,
        stride: int = 1,
    ) -> Any:
        """Return the tensor of sums, whose rows and columns are rounded up to whole blocks.

        Parameters
        ----------
        shape : sequence of int
            Sizes of the batch axes, the rows and the columns.
        summed : sequence of int
            Sizes of the axes summed over.
        columns : tvm.te.Tensor
            The factor that is read along its last axis. It is copied with zeros around, unless it needs none, one axis
            more before the last: the place modulo the stride.
        term : callable
            Takes the copy, the place in the result and the one in `summed`; returns the product.
        before, beyond : int
            How many zeros are in front, and how many places beyond the number of columns are read.
        stride : int
            How far neighbouring columns are apart.
        """
        from tvm import te, tirx

        *batch, height, width = shape
        rows, vectors = self.tile(height, width)
        axes = [te.reduce_axis((0, size)) for size in summed]
        across = _up(width, vectors * self.lanes)
        whole = not before and stride == 1 and across + beyond == columns.shape[-1]

        def copied(*place: Any) -> Any:
            *where, phase, position = place
            at = position * stride + phase - before
            value, inside = columns[(*where, at)], tirx.all(at >= 0, at < columns.shape[-1])
            return value if whole else tirx.if_then_else(inside, value, tirx.const(0, "float32"))

        name = "columns" if whole else COLUMNS
        copy = te.compute((*columns.shape[:-1], stride, across + beyond), copied, name=name)

        def total(*place: Any) -> Any:
            *where, row, column = place
            row = tirx.min(row, height - 1) if height % rows else row  # what sticks out repeats the last row
            return te.sum(term(copy, *where, row, column, *axes), axis=axes)

        tile = {TILE: [rows, vectors, self.lanes]}
        return te.compute((*batch, _up(height, rows), across), total, name="block_sums", attrs=tile)


def _up(value: int, step: int) -> int:
    return -(-value // step) * step


def _conv1d(call: Any, blocks: Blocks, x: list[int], weight: list[int]) -> Written | None:
    """Write a convolution of one group."""
    from tvm import te

    (stride,), (before, _), (dilation,) = call.attrs.strides, call.attrs.padding, call.attrs.dilation
    shape, reach = _shape(call), int(dilation) * (weight[2] - 1)
    if call.attrs.groups != 1 or not shape:
        return None

    def conv1d(data: Any, kernel: Any) -> Any:
        def term(copy: Any, n: Any, row: Any, column: Any, channel: Any, tap: Any) -> Any:
            moved = tap * dilation
            return copy[n, channel, moved % stride, column + moved // stride] * kernel[row, channel, tap]

        sums = blocks.sums(shape, weight[1:], data, term, before, reach // stride, stride)
        return te.compute(shape, lambda *place: sums[place], name="conv1d")

    return conv1d


def _conv1d_transpose(call: Any, blocks: Blocks, x: list[int], weight: list[int]) -> Written | None:
    """Write a transposed convolution without the products with the zeros that TVM puts between neighbours.

    Which taps meet a number depends on the place of the result modulo the stride, its phase; each phase is a
    convolution with every stride-th tap. They must share out evenly among the phases: a weight added to even them out
    would multiply inf by zero.
    """
    from tvm import te

    (stride,), (before, _), (dilation,) = call.attrs.strides, call.attrs.padding, call.attrs.dilation
    shape = _shape(call)
    if call.attrs.groups != 1 or dilation != 1 or weight[2] % stride or not shape:
        return None
    last = weight[2] // stride - 1

    def conv1d_transpose(data: Any, kernel: Any) -> Any:
        def term(copy: Any, n: Any, phase: Any, row: Any, column: Any, channel: Any, tap: Any) -> Any:
            return copy[n, channel, 0, column + last - tap] * kernel[channel, row, tap * stride + phase]

        def element(n: Any, row: Any, column: Any) -> Any:
            at = column + before
            return sums[n, at % stride, row, at // stride]

        phases = [shape[0], stride, shape[1], (shape[2] - 1 + before) // stride + 1]
        sums = blocks.sums(phases, [x[1], last + 1], data, term, last, last)
        return te.compute(shape, element, name="conv1d_transpose")

    return conv1d_transpose


def _matmul(call: Any, blocks: Blocks, x: list[int], y: list[int]) -> Written | None:
    """Write the product of a matrix, or of several, with one or as many."""
    from tvm import te

    if len(x) < 2 or len(y) < 2 or y[:-2] not in ([], x[:-2]):
        return None

    def matmul(left: Any, right: Any) -> Any:
        def term(copy: Any, *place: Any) -> Any:
            *batch, row, column, along = place
            return left[(*batch, row, along)] * copy[(*batch[: len(y) - 2], along, 0, column)]

        sums = blocks.sums([*x[:-1], y[-1]], x[-1:], right, term)
        return te.compute([*x[:-1], y[-1]], lambda *place: sums[place], name="matmul")

    return matmul


TURN = Fraction(0x6487ED5110B4611A62633145C06E0E68948127044533E63A0105DF531D89CD91, 2**252)  # 2 pi
TWO_OVER_PI = 6.36619772367581382433e-01
HALF_PI = 1.57079631090164184570  # the first 25 bits, so that multiples are exact
HALF_PI_REST = 1.58932547735281966916e-08
SINES = (-0.166666666416265235595, 0.0083333293858894631756, -0.000198393348360966317347, 0.0000027183114939898219064)
COSINES = (-0.499999997251031003120, 0.0416666233237390631894, -0.00138867637746099294692, 0.0000243904487962774090654)


def _shares() -> np.ndarray:
    """Return, by the exponent of a float32, what takes whole turns off it as a factor, from 2**28 on; NaN for inf."""
    units = [Fraction(2) ** (exponent - 150) for exponent in range(255)]  # every such number is so many of them
    return np.array([*(1.0 if unit < 32 else float(unit % TURN / unit) for unit in units), np.nan])


def _sine(quarters: int) -> Legalisation:
    """Return how the sine of float32, in radians, plus `quarters` times pi / 2 is written, for vectors to compute."""
    from tvm import relax, te, tirx

    def double(number: float) -> Any:
        return tirx.const(number, "float64")

    def series(coefficients: tuple[float, ...], square: Any) -> Any:
        a, b, c, d = map(double, coefficients)
        return double(1) + square * (a + square * (b + square * (c + square * d)))

    def sine(x: Any, shares: Any) -> Any:
        def element(*place: Any) -> Any:
            exponent = (tirx.reinterpret("int32", x[place]) >> 23) & 255
            wide = x[place].astype("float64") * shares[exponent]
            quarter = tirx.nearbyint(wide * double(TWO_OVER_PI)).astype("int32")
            turns = quarter.astype("float64")  # by way of an integer, so that it is never -0, and the sine of -0 is
            rest = wide - turns * double(HALF_PI) - turns * double(HALF_PI_REST)
            square, quadrant = rest * rest, quarter + quarters
            height = tirx.Select((quadrant & 1) != 0, series(COSINES, square), rest * series(SINES, square))
            return tirx.Select((quadrant & 2) != 0, -height, height).astype("float32")

        return te.compute(x.shape, element, name="sine")

    def legalise(builder: Any, call: Any) -> Any:
        if not _shape(call):
            return _as_it_is(builder, call)
        return builder.call_te(sine, call.args[0], relax.const(_shares(), "float64"), primfunc_attrs=ELEMENTS)

    return legalise
