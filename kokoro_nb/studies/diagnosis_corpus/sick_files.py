"""Files that an ordinary converter made, and that are sick: each function writes one of a module and its inputs."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kokoro_nb.backends.base import quietly
from kokoro_nb.studies import onnx_converters


def legacy_onnx(module: Any, inputs: Mapping[str, Any], path: Path) -> Path:
    """Write the module by torch's TorchScript-based exporter, whose atan2 divides 0 by 0 (pytorch/pytorch#162570)."""
    import torch

    with quietly():
        torch.onnx.export(module, tuple(inputs.values()), str(path), dynamo=False, input_names=list(inputs))
    return path


def dynamo_onnx(module: Any, inputs: Mapping[str, Any], path: Path, **options: Any) -> Path:
    """Write the module by torch's exporter of today."""
    import torch

    with quietly():
        program = torch.onnx.export(module, kwargs=dict(inputs), dynamo=True, opset_version=18, **options)
        assert program is not None
        program.save(str(path))
    return path


def float16_onnx(module: Any, inputs: Mapping[str, Any], path: Path) -> Path:
    """Write the module and convert it to float16 by the tool of ONNX Runtime, which cuts constants at 65504."""
    return onnx_converters.to_float16(dynamo_onnx(module, inputs, path), path)


def int8_onnx(module: Any, inputs: Mapping[str, Any], path: Path) -> Path:
    """Write the module and quantise it by ONNX Runtime's `quantize_dynamic`: activations of 8 bits, one range each."""
    plain = dynamo_onnx(module, inputs, path.with_name("float32.onnx"))
    with quietly():
        from onnxruntime.quantization import QuantType, quantize_dynamic

        quantize_dynamic(plain, path, op_types_to_quantize=["Conv", "MatMul", "Gemm"], weight_type=QuantType.QUInt8)
    plain.unlink()
    return path


def calibrated_onnx(module: Any, inputs: Mapping[str, Any], path: Path) -> Path:
    """Write the module and quantise its Conv1d by ONNX Runtime's `quantize_static`, with ranges of quiet inputs."""
    quiet = {name: (value / 20).numpy() for name, value in inputs.items()}
    plain = dynamo_onnx(module, inputs, path.with_name("float32.onnx"))
    onnx_converters.to_int8(plain, path, quiet, products=("Conv",))
    plain.unlink()
    return path


def frozen_onnx(module: Any, inputs: Mapping[str, Any], path: Path) -> Path:
    """Write the module for any length by torch's TorchScript-based exporter, from an example of half the length.

    Tracing makes a number of what Python computes of a shape: the length of the example (idiap/coqui-ai-TTS#315).
    """
    import torch

    shorter = tuple(value[:, : value.shape[1] // 2] for value in inputs.values())
    axes = {name: {1: "length"} for name in inputs}
    with quietly():
        torch.onnx.export(module, shorter, str(path), dynamo=False, input_names=list(inputs), dynamic_axes=axes)
    return path
