"""Compressed weights, against what coremltools decompresses them to."""

import numpy as np
import pytest

GENERATOR = np.random.default_rng(0)
MASK = (GENERATOR.random((4, 6)) < 0.4).astype("uint8")
KEPT = int(MASK.sum())


def _constexpr(mil, kind, arguments, opset):
    """Return what we make of a weight and what coremltools does, through an identity, for a program needs an output."""
    import coremltools as ct
    from coremltools.converters.mil.mil import Builder as mb
    from coremltools.converters.mil.mil import Function, Program

    from kokoro_nb.backends.mil.interpreter import Interpreter

    program = Program()
    with Function({}, opset_version=getattr(ct.target, opset)) as function:
        results = getattr(mb, kind)(**arguments)
        results = list(results) if isinstance(results, tuple | list) else [results]
        function.set_outputs(results)
    program.add_function("main", function)
    theirs = results[0].op.materialized_val_inference()
    return Interpreter(program).run({}).values(), theirs if isinstance(theirs, tuple) else (theirs,)


def _narrow(values, kind):
    """Return integers marked as of fewer than 8 bits, as coremltools marks them."""
    from coremltools.converters.mil.mil import types

    return np.array(values).astype(types.nptype_from_builtin(types.string_to_builtin(kind)))


def _tables(*shape):
    return GENERATOR.normal(size=shape).astype("float32")


WEIGHTS = {
    "affine-scalar": lambda: (
        "constexpr_affine_dequantize",
        "iOS16",
        {
            "quantized_data": np.arange(24, dtype="uint8").reshape(2, 3, 4),
            "zero_point": np.uint8(7),
            "scale": np.float32(0.25),
            "axis": 0,
        },
    ),
    "affine-vector": lambda: (
        "constexpr_affine_dequantize",
        "iOS17",
        {
            "quantized_data": np.arange(-12, 12, dtype="int8").reshape(2, 3, 4),
            "zero_point": np.array([1, -2, 3], "int8"),
            "scale": np.array([0.5, 0.25, 2.0], "float16"),
            "axis": -2,
        },
    ),
    "cast": lambda: (
        "constexpr_cast",
        "iOS16",
        {"source_val": _tables(3, 2).astype("float16"), "output_dtype": "fp32"},
    ),
    **{
        f"table-of-{size}": lambda size=size: (
            "constexpr_lut_to_dense",
            "iOS16",
            {
                "indices": GENERATOR.integers(0, 256, -(-15 * (size.bit_length() - 1) // 8)).astype("uint8"),
                "lut": _tables(size),
                "shape": np.array([3, 5], "uint32"),
            },
        )
        for size in (2, 4, 16, 64, 256)
    },
    "sparse": lambda: (
        "constexpr_sparse_to_dense",
        "iOS16",
        {
            "nonzero_data": _tables(KEPT),
            "mask": np.packbits(MASK.ravel(), bitorder="little"),
            "shape": np.array([4, 6], "uint32"),
        },
    ),
    "sparse-18": lambda: (
        "constexpr_sparse_to_dense",
        "iOS18",
        {"nonzero_data": _tables(KEPT), "mask": _narrow(MASK, "uint1")},
    ),
    "blocks": lambda: (
        "constexpr_blockwise_shift_scale",
        "iOS18",
        {
            "data": _narrow(GENERATOR.integers(-8, 8, (4, 6)), "int4"),
            "scale": _tables(2, 3),
            "offset": _narrow([[1, -2, 3], [0, 4, -8]], "int4"),
        },
    ),
    "blocks-without-offset": lambda: (
        "constexpr_blockwise_shift_scale",
        "iOS18",
        {"data": GENERATOR.integers(-128, 128, (4, 6)).astype("int8"), "scale": _tables(1, 6).astype("float16")},
    ),
    "tables": lambda: (
        "constexpr_lut_to_dense",
        "iOS18",
        {"indices": _narrow(GENERATOR.integers(0, 4, (6, 2)), "uint2"), "lut": _tables(2, 1, 4, 1)},
    ),
    **{
        f"vectors-{axis}": lambda axis=axis: (
            "constexpr_lut_to_dense",
            "iOS18",
            {
                "indices": _narrow(GENERATOR.integers(0, 2, (2, 2, 2)), "uint1"),
                "lut": _tables(1, 1, 1, 2, 3),
                "vector_axis": np.int32(axis),
            },
        )
        for axis in (1, 2, -1)
    },
    "sparse-tables": lambda: (
        "constexpr_lut_to_sparse",
        "iOS18",
        {
            "indices_mask": _narrow(MASK, "uint1"),
            "indices_nonzero_data": _narrow(np.arange(KEPT) % 4, "uint2"),
            "lut": _tables(1, 1, 4, 1),
        },
    ),
    "sparse-vectors": lambda: (
        "constexpr_lut_to_sparse",
        "iOS18",
        {
            "indices_mask": _narrow(MASK, "uint1"),
            "indices_nonzero_data": _narrow(np.arange(KEPT) % 2, "uint1"),
            "lut": _tables(1, 1, 2, 2),
            "vector_axis": np.int32(0),
        },
    ),
    "sparse-blocks": lambda: (
        "constexpr_sparse_blockwise_shift_scale",
        "iOS18",
        {
            "data_mask": _narrow(MASK, "uint1"),
            "nonzero_data": GENERATOR.integers(-9, 9, KEPT).astype("int8"),
            "scale": _tables(1, 6),
            "offset": np.arange(6, dtype="int8")[None],
        },
    ),
}

X = np.linspace(-3, 3, 24, dtype="float32").reshape(2, 3, 4)
STEPS = np.arange(-12, 12, dtype="int8").reshape(2, 3, 4)
VECTOR, ZERO = np.array([0.5, 0.25, 2.0], "float32"), np.array([1, -2, 3], "int8")


def _dequantised(scale, zero=0):
    return scale * (STEPS.astype("float32") - zero)


def _along(vector):
    return vector.astype("float32").reshape(1, 3, 1)


CASES = {
    "quantize": [
        {"inputs": {"input": X}, "attributes": {"scale": np.float32(0.02), "output_dtype": "int8"}},  # beyond 127
        {
            "inputs": {"input": X},
            "attributes": {"scale": np.float32(0.5), "zero_point": np.uint8(3), "output_dtype": "uint8"},
        },
        {
            "inputs": {"input": X},
            "attributes": {"scale": VECTOR, "zero_point": ZERO, "axis": 1, "output_dtype": "int8"},
        },
    ],
    "dequantize": [
        {
            "inputs": {"input": STEPS},
            "attributes": {"scale": np.float32(0.25)},
            "expected": _dequantised(np.float32(0.25)),
        },
        {
            "inputs": {"input": STEPS},
            "attributes": {"scale": VECTOR, "zero_point": ZERO, "axis": -2},
            "expected": _dequantised(_along(VECTOR), _along(ZERO)),
        },
    ],
    "constexpr_affine_dequantize": [],
    "constexpr_blockwise_shift_scale": [],
    "constexpr_cast": [],
    "constexpr_lut_to_dense": [],
    "constexpr_lut_to_sparse": [],
    "constexpr_sparse_blockwise_shift_scale": [],
    "constexpr_sparse_to_dense": [],
}


def test_operator(mil, kind, case):
    mil.check(kind, case)


@pytest.mark.parametrize("weight", WEIGHTS)
def test_a_compressed_weight(mil, weight):
    kind, opset, arguments = WEIGHTS[weight]()
    ours, theirs = _constexpr(mil, kind, arguments, opset)
    for one, other in zip(ours, theirs, strict=True):
        assert one.dtype == np.dtype(other.dtype.str)
        np.testing.assert_allclose(one, other, rtol=1e-6 if one.dtype != np.float16 else 2.0**-10)


def test_every_compression_has_a_weight():
    covered = {WEIGHTS[name]()[0] for name in WEIGHTS}
    assert covered == {kind for kind, cases in CASES.items() if not cases}
