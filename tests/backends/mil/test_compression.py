"""Compressed weights, against what coremltools decompresses them to."""

import numpy as np
import pytest

from kokoro_nb.backends.mil.interpreter import Interpreter

GENERATOR = np.random.default_rng(0)
MASK = (GENERATOR.random((4, 6)) < 0.4).astype("uint8")
COUNT = int(MASK.sum())


class Narrow:
    """Integers marked as of fewer than 8 bits, as coremltools marks them; made where it is imported."""

    def __init__(self, values, kind):
        self.values, self.kind = np.array(values), kind

    def made(self):
        from coremltools.converters.mil.mil import types

        return self.values.astype(types.nptype_from_builtin(types.string_to_builtin(self.kind)))


def _tables(*shape):
    return GENERATOR.normal(size=shape).astype("float32")


def _whole(low, high, *shape):
    return GENERATOR.integers(low, high, shape)


BITS, PACKED = Narrow(MASK, "uint1"), np.packbits(MASK.ravel(), bitorder="little")
ONE_BIT = Narrow(_whole(0, 2, 2, 2, 2), "uint1")
OFFSET = Narrow([[1, -2, 3], [0, 4, -8]], "int4")
ROWS = np.arange(24, dtype="uint8").reshape(2, 3, 4)
STEPS = np.arange(-12, 12, dtype="int8").reshape(2, 3, 4)
VECTOR, ZERO = np.array([0.5, 0.25, 2.0], "float32"), np.array([1, -2, 3], "int8")
CHOSEN, SPARSE = {"indices_mask": BITS}, {"data_mask": BITS, "nonzero_data": _whole(-9, 9, COUNT).astype("int8")}
TWOS, FOURS = Narrow(np.arange(COUNT) % 2, "uint1"), Narrow(np.arange(COUNT) % 4, "uint2")
# Type of the operator -> the operator set that the weight is written in, and the operator's inputs.
WEIGHTS = {
    "constexpr_affine_dequantize": [
        ("iOS16", {"quantized_data": ROWS, "zero_point": np.uint8(7), "scale": np.float32(0.25), "axis": 0}),
        ("iOS17", {"quantized_data": STEPS, "zero_point": ZERO, "scale": VECTOR.astype("float16"), "axis": -2}),
    ],
    "constexpr_cast": [("iOS16", {"source_val": _tables(3, 2).astype("float16"), "output_dtype": "fp32"})],
    "constexpr_lut_to_dense": [
        # 15 indices of 6 bits
        ("iOS16", {"indices": _whole(0, 256, 12).astype("uint8"), "lut": _tables(64), "shape": [3, 5]}),
        ("iOS18", {"indices": Narrow(_whole(0, 4, 6, 2), "uint2"), "lut": _tables(2, 1, 4, 1)}),
        ("iOS18", {"indices": ONE_BIT, "lut": _tables(1, 1, 1, 2, 3), "vector_axis": np.int32(-1)}),
    ],
    "constexpr_sparse_to_dense": [
        ("iOS16", {"nonzero_data": _tables(COUNT), "mask": PACKED, "shape": [4, 6]}),
        ("iOS18", {"nonzero_data": _tables(COUNT), "mask": BITS}),
    ],
    "constexpr_blockwise_shift_scale": [
        ("iOS18", {"data": Narrow(_whole(-8, 8, 4, 6), "int4"), "scale": _tables(2, 3), "offset": OFFSET}),
        ("iOS18", {"data": _whole(-128, 128, 4, 6).astype("int8"), "scale": _tables(1, 6).astype("float16")}),
    ],
    "constexpr_lut_to_sparse": [
        ("iOS18", {**CHOSEN, "indices_nonzero_data": FOURS, "lut": _tables(1, 1, 4, 1)}),
        ("iOS18", {**CHOSEN, "indices_nonzero_data": TWOS, "lut": _tables(1, 1, 2, 2), "vector_axis": np.int32(0)}),
    ],
    "constexpr_sparse_blockwise_shift_scale": [
        ("iOS18", {**SPARSE, "scale": _tables(1, 6), "offset": np.arange(6, dtype="int8")[None]})
    ],
}
X = np.linspace(-3, 3, 24, dtype="float32").reshape(2, 3, 4)
WIDE = VECTOR.reshape(1, 3, 1) * (STEPS - ZERO.astype("float32").reshape(1, 3, 1))
CASES = {
    "quantize": [
        {"inputs": {"input": X}, "scale": 0.02, "output_dtype": "int8"},  # beyond 127
        {"inputs": {"input": X}, "scale": 0.5, "zero_point": np.uint8(3), "output_dtype": "uint8"},
        {"inputs": {"input": X}, "scale": VECTOR, "zero_point": ZERO, "axis": 1, "output_dtype": "int8"},
    ],
    "dequantize": [
        {"inputs": {"input": STEPS}, "scale": 0.25, "expected": np.float32(0.25) * STEPS},
        {"inputs": {"input": STEPS}, "scale": VECTOR, "zero_point": ZERO, "axis": -2, "expected": WIDE},
    ],
    **dict.fromkeys(WEIGHTS, ()),
}


@pytest.mark.parametrize(("kind", "number"), [(kind, i) for kind, cases in WEIGHTS.items() for i in range(len(cases))])
def test_a_compressed_weight(mil, kind, number):
    opset, given = WEIGHTS[kind][number]
    given = {name: value.made() if isinstance(value, Narrow) else value for name, value in given.items()}
    given |= {"shape": np.array(given["shape"], "uint32")} if "shape" in given else {}
    program, _, results = mil.build(kind, {}, given, opset)
    theirs = results[0].op.materialized_val_inference()
    theirs = theirs if isinstance(theirs, tuple) else (theirs,)
    for ours, other in zip(Interpreter(program).run({}).values(), theirs, strict=True):
        assert ours.dtype == np.dtype(other.dtype.str)
        np.testing.assert_allclose(ours, other, rtol=1e-6 if ours.dtype != np.float16 else 2.0**-10)
