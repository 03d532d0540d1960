"""Files with a fault in each, and files of which it is known who is to blame, as data."""

import shutil
import tempfile
from contextlib import contextmanager, nullcontext
from functools import cache
from pathlib import Path
from unittest.mock import patch

import numpy as np

from kokoro_nb.inspection import inspect, onnx_model
from tests.corpus import forms, programs
from tests.corpus.onnx_files import saved, with_constant

_ROOM = tempfile.TemporaryDirectory()
LOUDER = 2.4  # what a converter that cuts 24000 at 10000 makes of a pitch


IN_MODULE = {
    "constant": ({}, lambda module: module.first.weight.mul_(LOUDER)),
    "one_channel": ({}, lambda module: module.first.weight[3].mul_(-1)),
    "attribute": ({"slope": 0.3}, None),
    "epsilon": ({"eps": 0.5}, None),
    "axis": ({"dim": -2}, None),
    "overflowing_cast": ({"between": programs.OverflowingCast()}, None),
    "infinity_less_infinity": ({"between": programs.InfinityLessInfinity()}, None),
    "masked": ({"between": programs.Masked()}, None),
}
"""What the file does not tell by itself is looked for against the healthy one; the last three alone."""
ALONE = ("overflowing_cast", "infinity_less_infinity", "masked")
_AGAINST = ("constant", "one_channel", "attribute", "epsilon", "axis")
FORMS = {
    **dict.fromkeys(("legacy_onnx", "dynamo_onnx", "pt2", "float32_mlpackage"), (*_AGAINST, *ALONE)),
    "optimised_onnx": ("constant", "axis"),
    "portable_pte": ("one_channel", "axis", "overflowing_cast", "masked"),
    "xnnpack_pte": ("constant", "attribute"),  # a lowering takes seconds
}
"""Form -> faults of the module that are written in it."""


@cache
def faulty_module(kind):
    """Return the program with a fault, the same for every form."""
    options, change = IN_MODULE[kind]
    module, inputs = programs.attentive(**options)
    if change:
        change(module)
    return module, inputs


def inspected_fault(kind, form, folder):
    """Write a program with a fault in a form, and inspect the file."""
    path, inputs = forms.written(form, faulty_module(kind), folder)
    return inspect(path, inputs, against=None if kind in ALONE else healthy_file(form)[0])


@cache
def healthy_file(form):
    """Return the path of the healthy file of a form, and its inputs; it is made once in a process."""
    return forms.written(form, _healthy(), Path(_ROOM.name))


_healthy = cache(programs.attentive)


def _parameter_of_weights(path, place, change):
    """Change the scale (place 1) or zero point (place 2) of the integer weights of one DequantizeLinear of a file."""

    def find(nodes, held):
        constant = (one for one in nodes if one.op_type == "DequantizeLinear" and one.input[0] in held)
        return next(one.input[place] for one in constant if len(held[one.input[0]].dims) > 1)

    with_constant(path, find, change)


def _narrow_activation(path):
    """Make the range of one activation's integers sixteen times too narrow, wherever it is read."""

    def find(nodes, held):
        return [one.input[1] for one in nodes if one.op_type == "QuantizeLinear" and one.input[0] not in held][1]

    with_constant(path, find, lambda scale: scale / np.float32(16))


def _in_package(path, name, change):
    """Change the scale or zero point of the first integer weights of a Core ML package."""
    import coremltools as ct
    from coremltools.proto import MIL_pb2

    function = ct.utils.load_spec(str(path)).mlProgram.functions["main"]
    operations = function.block_specializations[function.opset].operations
    kinds = {"FLOAT32": np.float32, "INT8": np.int8, "UINT8": np.uint8}
    file = path / "Data" / "com.apple.CoreML" / "weights" / "weight.bin"
    data = bytearray(file.read_bytes())
    for operation in operations:
        value = operation.attributes[name] if "dequantize" in operation.type else None
        if value is not None and value.WhichOneof("value") == "blobFileValue":
            dtype = np.dtype(kinds[MIL_pb2.DataType.Name(value.type.tensorType.dataType)])
            head = np.frombuffer(data, "<u8", 3, value.blobFileValue.offset)  # sentinel, bytes, where they begin
            array = np.frombuffer(data, dtype, int(head[1]) // dtype.itemsize, int(head[2]))
            array[...] = change(array)
            break
    file.write_bytes(data)


def _reversed(array):
    return array[::-1].copy()


def _moved(array):
    return np.where(array > 100, array - 1, array + 1).astype(array.dtype)


def _turned_scales(converted):
    scales = [one for name, one in converted.named_buffers() if "scale" in name and one.numel() > 1]
    scales[0].copy_(scales[0].flip(0))


IN_FILE = {
    "permuted_scale-qdq_onnx": lambda path: _parameter_of_weights(path, 1, _reversed),
    "zero_point-qdq_onnx": lambda path: _parameter_of_weights(path, 2, _moved),
    "saturation-qdq_onnx": _narrow_activation,
    "permuted_scale-quantised_mlpackage": lambda path: _in_package(path, "scale", _reversed),
    "zero_point-quantised_mlpackage": lambda path: _in_package(path, "zero_point", _moved),
    "permuted_scale-quantised_pte": {"spoil": _turned_scales},
    "saturation-quantised_pte": {"quieter": 16},
}
"""Faults of integers: a change of the written file, or an option of what writes it."""


def inspected_integers(name, folder):
    """Write a quantised program with a fault, and inspect it against the one without."""
    form, change = name.partition("-")[2], IN_FILE[name]
    healthy, inputs = healthy_file(form)
    path = folder / f"faulty{healthy.suffix}"
    if callable(change):
        shutil.copytree(healthy, path) if healthy.is_dir() else shutil.copy(healthy, path)
        change(path)
    else:
        forms.quantised_pte(*_healthy(), path, **change)
    return inspect(path, inputs, against=healthy)


SHAPE = (2, 8)
KERNELS = {
    "scaled_kernel": ("Tanh", (), lambda value: value * (1 + 1e-3)),
    "one_wrong_element": ("Sigmoid", (), lambda value: np.where(np.arange(16).reshape(SHAPE) == 5, value + 0.1, value)),
    "swapped_rows": ("Softsign", (), lambda value: value[::-1].copy()),
    "kernel_of_nan": ("Atan", (), lambda value: np.full_like(value, np.nan)),
    "lost_bias": ("Add", (0.5,), lambda value: value - np.float32(0.25)),
}
"""What the runtime computes wrongly: operator, constants, and what becomes of the right value."""
CHAINS = {
    "nothing_by_nothing": ("file", [("Mul", 0.0), ("Div", 0.0)]),
    "log_of_a_negative": ("file", [("Abs",), ("Neg",), ("Sub", 1.0), ("Log",)]),
    "root_of_a_negative": ("file", [("Abs",), ("Neg",), ("Sub", 0.5), ("Sqrt",)]),
    "constant_of_nan": ("file", [("Mul", [np.nan] * 8)]),
    "infinite_constant": ("file", [("Add", [np.inf] * 8)]),
    "exp_beyond_float16": ("precision", [("Abs",), ("Add", 12.0), ("Exp",)]),
    "square_beyond_float16": ("precision", [("Abs",), ("Add", 300.0), ("Mul", "last")]),
    "sum_beyond_float16": ("precision", [("Abs",), ("Add", 10_000.0), ("ReduceSum",)]),
    "reciprocal_beyond_float16": ("precision", [("Sigmoid",), ("Mul", 5e-6), ("Reciprocal",)]),
    "product_beyond_float16": ("precision", [("Abs",), ("Add", 3.0), ("Mul", 30_000.0)]),
    "log_of_silence": ("input", [("Abs",), ("Log",)]),
    "one_over_silence": ("input", [("Abs",), ("Reciprocal",)]),
    "silence_normalised": ("input", [("Div", "last")]),
}
"""Who is to blame, and nodes, the last of which has to be named; those of blame on the input are given zeros."""
INPUTS = {"nan_input": np.nan, "infinite_input": np.inf}
"""What stands in one place of the input."""


def _saved(path, chain, dtype):
    from onnx import helper

    nodes, constants, last = [], {}, "x"
    for k, (kind, *others) in enumerate(chain):
        reads = [last]
        for other in others:
            name = last if isinstance(other, str) else f"c{k}"
            reads.append(name)
            if name != last:
                constants[name] = np.asarray(other, dtype)
        nodes.append(helper.make_node(kind, reads, [f"v{k}"], name=f"/{k}/{kind}"))
        last = f"v{k}"
    number = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    return saved(path, nodes, {"x": (number, SHAPE)}, {last: (number, None)}, constants)


@contextmanager
def wrong_runtime(name, change):
    """Have ONNX Runtime give something else for the value `name`, in the whole graph as in a part of it."""
    real = onnx_model.run_session

    def spoilt(session, inputs):
        found = real(session, inputs)
        return {
            key: change(np.array(value)).astype(value.dtype) if key == name else value for key, value in found.items()
        }

    with patch("kokoro_nb.inspection.onnx_model.run_session", spoilt):
        yield


def inspected_blame(kind, folder):
    """Inspect a chain with one thing wrong and healthy nodes about it; return also who is to blame and the node."""
    draw = np.random.default_rng(0)
    before, after = [("Tanh",), ("Sin",), ("Add", 0.5)], [("Neg",), ("Mul", 0.7)]
    dtype, runtime, x = np.float32, nullcontext(), draw.standard_normal(SHAPE)
    if kind in KERNELS:
        operator, others, change = KERNELS[kind]
        chain, at, blame = [*before, (operator, *others), *after], len(before), "runtime"
        runtime = wrong_runtime(f"v{at}", change)
    elif kind in INPUTS:
        chain, at, blame = [*before, *after], None, "input"
        x[0, 3] = INPUTS[kind]
    else:
        blame, wrong = CHAINS[kind]
        chain = wrong if blame == "input" else [*before, *wrong]
        at, x = len(chain) - 1, np.zeros(SHAPE) if blame == "input" else x
        dtype = np.float16 if blame == "precision" else dtype
    path = _saved(folder / "model.onnx", chain, dtype)
    with runtime:
        report = inspect(path, {"x": x.astype(dtype)})
    return report, (blame, "" if at is None else f"/{at}/{chain[at][0]}")


BLAMED = (*KERNELS, *CHAINS, *INPUTS)
