"""Files as people make them: torch's exporter, and ONNX Runtime's own converters to float16 and to int8."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from kokoro_nb.backends.base import quietly

PRODUCTS = ("Conv", "ConvTranspose", "MatMul", "Gemm")  # what is quantised


def dynamo_onnx(module: Any, inputs: Mapping[str, Any], path: Path) -> Path:
    """Write a module by torch's exporter of today, in float32."""
    import torch

    with quietly():
        program = torch.onnx.export(module, kwargs=dict(inputs), dynamo=True, opset_version=18)
        assert program is not None
        program.save(str(path))
    return path


def to_float16(plain: Path, path: Path) -> Path:
    """Convert a file by `convert_float_to_float16`, which cuts constants at 65504; inputs and outputs stay float32."""
    with quietly():
        import onnx
        from onnxruntime.transformers.float16 import convert_float_to_float16

        onnx.save(convert_float_to_float16(onnx.load(plain), keep_io_types=True), path)
    return path


def bare(plain: Path, path: Path) -> Path:
    """Write a copy without the exporter's own shapes, on which the quantisers stop where nodes were folded."""
    import onnx

    model = onnx.load(plain)
    del model.graph.value_info[:]
    onnx.save(model, path)
    return path


def to_int8(
    plain: Path,
    path: Path,
    inputs: Mapping[str, np.ndarray],
    form: str = "QDQ",
    products: Sequence[str] = PRODUCTS,
    **options: Any,
) -> Path:
    """Quantise a file by `quantize_static`, with the ranges that activations have on `inputs`.

    Parameters
    ----------
    plain, path : Path
        In float32, and where the other is written.
    inputs : mapping of str to numpy.ndarray
        What it is calibrated on.
    form : {"QDQ", "QOperator"}
    products : sequence of str
        Operators that are quantised.
    options
        Further arguments of `quantize_static`.
    """
    ready, left = bare(plain, path.with_name(f"{path.stem}_bare.onnx")), [dict(inputs)]
    with quietly():
        from onnxruntime.quantization import CalibrationDataReader, QuantFormat, quantize_static

        class Once(CalibrationDataReader):
            def get_next(self) -> Any:
                return left.pop() if left else None

        given = {"quant_format": QuantFormat[form], "op_types_to_quantize": [*products], **options}
        quantize_static(ready, path, Once(), **given)
    ready.unlink()
    return path
