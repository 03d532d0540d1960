"""The forms that a model file comes in: each function writes one of a module and its inputs, and returns its path."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from kokoro_nb.backends.base import quietly
from kokoro_nb.studies import onnx_converters
from kokoro_nb.studies.diagnosis_corpus import sick_files
from kokoro_nb.studies.inspection_corpus.mil_package import MilPackage

Inputs = Mapping[str, Any]


def dynamo_onnx(module: Any, inputs: Inputs, folder: Path) -> Path:
    """Write ONNX by torch's exporter of today."""
    return sick_files.dynamo_onnx(module, inputs, folder / "dynamo.onnx")


def legacy_onnx(module: Any, inputs: Inputs, folder: Path) -> Path:
    """Write ONNX by torch's TorchScript-based exporter."""
    return sick_files.legacy_onnx(module, inputs, folder / "legacy.onnx")


def float16_onnx(module: Any, inputs: Inputs, folder: Path) -> Path:
    """Write ONNX in float16 by ONNX Runtime's tool."""
    return sick_files.float16_onnx(module, inputs, folder / "float16.onnx")


def optimised_onnx(module: Any, inputs: Inputs, folder: Path) -> Path:
    """Write ONNX as ONNX Runtime optimises it, with its own fused operators."""
    path, plain = folder / "optimised.onnx", dynamo_onnx(module, inputs, folder)
    with quietly():
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.optimized_model_filepath = str(path)
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
        onnxruntime.InferenceSession(str(plain), options, providers=["CPUExecutionProvider"])
    return path


def dynamic_onnx(module: Any, inputs: Inputs, folder: Path) -> Path:
    """Write ONNX with activations quantised while running, and LSTMs of integers."""
    path = folder / "dynamic.onnx"
    plain = onnx_converters.bare(dynamo_onnx(module, inputs, folder), folder / "bare.onnx")
    with quietly():
        from onnxruntime.quantization import quantize_dynamic

        quantize_dynamic(plain, path, op_types_to_quantize=["Conv", "MatMul", "Gemm", "LSTM"])
    return path


def qdq_onnx(module: Any, inputs: Inputs, folder: Path) -> Path:
    """Write ONNX with float operators between QuantizeLinear and DequantizeLinear."""
    return _static(module, inputs, folder, "QDQ")


def qoperator_onnx(module: Any, inputs: Inputs, folder: Path) -> Path:
    """Write ONNX with operators on integers."""
    return _static(module, inputs, folder, "QOperator")


def four_bit_onnx(module: Any, inputs: Inputs, folder: Path) -> Path:
    """Write ONNX with weights of four bits in blocks."""
    path, plain = folder / "four_bit.onnx", dynamo_onnx(module, inputs, folder)
    with quietly():
        import onnx
        from onnxruntime.quantization.matmul_nbits_quantizer import MatMulNBitsQuantizer

        tool = MatMulNBitsQuantizer(onnx.load(plain), bits=4, block_size=16, is_symmetric=True)
        tool.process()
        tool.model.save_model_to_file(str(path))
    return path


def pt2(module: Any, inputs: Inputs, folder: Path) -> Path:
    """Write what `torch.export.save` writes."""
    import torch

    path = folder / "program.pt2"
    with quietly():
        torch.export.save(_exported(module, inputs), path)
    return path


def portable_pte(module: Any, inputs: Inputs, folder: Path) -> Path:
    """Write a program for ExecuTorch's portable kernels."""
    return _pte(_exported(module, inputs), [], folder / "portable.pte")


def xnnpack_pte(module: Any, inputs: Inputs, folder: Path) -> Path:
    """Write a program for ExecuTorch with what XNNPACK takes delegated."""
    return _pte(_exported(module, inputs), [xnnpack_partitioner()], folder / "xnnpack.pte")


def quantised_pte(module: Any, inputs: Inputs, folder: Path) -> Path:
    """Write a program for ExecuTorch with int8 weights and activations on XNNPACK."""
    return _pte(quantised_program(module, inputs), [xnnpack_partitioner()], folder / "quantised.pte")


def quantised_program(module: Any, inputs: Inputs) -> Any:
    """Return an exported program in the form from which XNNPACK takes int8, calibrated on its inputs."""
    with quietly():
        from executorch.backends.xnnpack.quantizer.xnnpack_quantizer import (
            XNNPACKQuantizer,
            get_symmetric_quantization_config,
        )
        from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

        quantiser = XNNPACKQuantizer().set_global(get_symmetric_quantization_config(is_per_channel=True))
        prepared = prepare_pt2e(_exported(module, inputs).module(), quantiser)
        prepared(*inputs.values())
        converted = convert_pt2e(prepared)
    return _exported(converted, inputs)


def float32_mlpackage(module: Any, inputs: Inputs, folder: Path) -> Path:
    """Write a program for Core ML in float32."""
    return _core_ml(module, inputs, folder, "FLOAT32")


def float16_mlpackage(module: Any, inputs: Inputs, folder: Path) -> Path:
    """Write a program for Core ML in float16, as coremltools does unasked."""
    return _core_ml(module, inputs, folder, "FLOAT16")


def quantised_mlpackage(module: Any, inputs: Inputs, folder: Path) -> Path:
    """Write a program for Core ML with its weights in int8, each channel with a scale and a zero point."""
    plain, path = float32_mlpackage(module, inputs, folder), folder / "quantised.mlpackage"
    with quietly():
        import coremltools as ct
        from coremltools.optimize import coreml as tools

        settings = tools.OpLinearQuantizerConfig(mode="linear", weight_threshold=0)
        model = ct.models.MLModel(str(plain), skip_model_load=True)
        tools.linear_quantize_weights(model, config=tools.OptimizationConfig(global_config=settings)).save(str(path))
    return path


def one_file_mlmodel(module: Any, inputs: Inputs, folder: Path) -> Path:
    """Write a program for Core ML in one file, its weights among the instructions."""
    package, path = MilPackage(float32_mlpackage(module, inputs, folder)), folder / "one_file.mlmodel"
    for _, value in package.held():
        array = package.array(value)
        if array is not None:
            value.immediateValue.tensor.floats.values.extend(array.reshape(-1).tolist())
    path.write_bytes(package.spec.SerializeToString())
    return path


def _static(module: Any, inputs: Inputs, folder: Path, form: str) -> Path:
    from onnxruntime.quantization import QuantType

    given = {name: np.asarray(value) for name, value in inputs.items()}
    options = {"per_channel": form == "QDQ", "weight_type": QuantType.QInt8}
    return onnx_converters.to_int8(dynamo_onnx(module, inputs, folder), folder / f"{form}.onnx", given, form, **options)


def _exported(module: Any, inputs: Inputs) -> Any:
    import torch

    with quietly():
        return torch.export.export(module, tuple(inputs.values()))


def xnnpack_partitioner() -> Any:
    """Return ExecuTorch's partitioner for XNNPACK, as it comes."""
    with quietly():
        from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner

        return XnnpackPartitioner()


def _pte(program: Any, partitioners: list[Any], path: Path) -> Path:
    with quietly():
        from executorch.exir import to_edge_transform_and_lower

        edge = to_edge_transform_and_lower(program, partitioner=partitioners)
        path.write_bytes(edge.to_executorch().buffer)
    return path


def _core_ml(module: Any, inputs: Inputs, folder: Path, precision: str) -> Path:
    path = folder / f"{precision.lower()}.mlpackage"
    with quietly():
        import coremltools as ct

        model = ct.convert(
            _exported(module, inputs).run_decompositions({}),
            convert_to="mlprogram",
            minimum_deployment_target=ct.target.iOS17,
            compute_precision=ct.precision[precision],
            skip_model_load=True,
        )
        model.save(str(path))
    return path
