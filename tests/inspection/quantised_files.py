"""One small net of convolutions and products, quantised by the four tools that come with ONNX Runtime."""

import logging
from pathlib import Path

import numpy as np
from onnx import TensorProto, helper

from tests.corpus.forms import four_bits
from tests.corpus.onnx_files import saved

FORMS = ("qdq", "qoperator", "dynamic", "bits")
SHAPE = (1, 16, 64)


def weights():
    """Return the constants by name, float32."""
    draw = np.random.default_rng(0)

    def drawn(*shape):
        return (draw.standard_normal(shape) / np.sqrt(np.prod(shape[1:]))).astype(np.float32)

    return {"w0": drawn(32, 16, 5), "w1": drawn(32, 32, 5), "w2": drawn(16, 32, 1), "w3": drawn(64, 64) * 2}


def drawn_inputs(seed):
    return {"x": np.random.default_rng(seed).standard_normal(SHAPE).astype(np.float32)}


def write(folder):
    """Write the float file and each quantised one as ``<form>.onnx``, and return the folder."""
    from onnxruntime.quantization import QuantFormat, QuantType, quantize_dynamic, quantize_static
    from onnxruntime.quantization.calibrate import CalibrationDataReader

    class Reader(CalibrationDataReader):
        def __init__(self):
            self.given = iter([drawn_inputs(seed) for seed in range(3)])

        def get_next(self):
            return next(self.given, None)

    folder = Path(folder)
    logging.getLogger().setLevel(logging.ERROR)
    make = helper.make_node
    nodes, last = [], "x"
    for k, pads in enumerate(([2, 2], [2, 2], [0, 0])):
        nodes += [make("Conv", [last, f"w{k}"], [f"c{k}"], name=f"conv{k}", pads=pads)]
        nodes += [make("Tanh", [f"c{k}"], [f"t{k}"], name=f"tanh{k}")]
        last = f"t{k}"
    nodes += [make("MatMul", [last, "w3"], ["y"], name="matmul")]
    ends = {"x": (TensorProto.FLOAT, SHAPE)}, {"y": (TensorProto.FLOAT, SHAPE)}
    float_file = saved(folder / "float.onnx", nodes, *ends, weights(), opset=21)
    for name, form in (("qdq", QuantFormat.QDQ), ("qoperator", QuantFormat.QOperator)):
        options = {"quant_format": form, "weight_type": QuantType.QInt8, "per_channel": name == "qdq"}
        quantize_static(float_file, folder / f"{name}.onnx", Reader(), **options)
    quantize_dynamic(float_file, folder / "dynamic.onnx")
    four_bits(float_file, folder / "bits.onnx")
    return folder
