"""The forms that a model file comes in: each function writes one of a module and its inputs, and returns its path."""

from weakref import WeakKeyDictionary

import numpy as np
import torch

from kokoro_nb.backends.base import quietly
from kokoro_nb.studies import inspect_file


def arrays(inputs):
    """Return tensors by name as arrays."""
    return {name: value.numpy() for name, value in inputs.items()}


_WRITTEN = WeakKeyDictionary()  # a module -> the file that its other forms are made of


def dynamo_onnx(module, inputs, path):
    """Write ONNX by torch's exporter; it is run once for a module."""
    if module not in _WRITTEN:
        _WRITTEN[module] = inspect_file.dynamo_onnx(module, inputs, path).read_bytes()
    path.write_bytes(_WRITTEN[module])
    return path


def legacy_onnx(module, inputs, path, **options):
    """Write ONNX by torch's TorchScript-based exporter, whose atan2 divides 0 by 0 (pytorch/pytorch#162570)."""
    with quietly():
        given = {"dynamo": False, "input_names": list(inputs), **options}
        torch.onnx.export(module, tuple(inputs.values()), str(path), **given)
    return path


def frozen_onnx(module, inputs, path):
    """Write ONNX for any length from an example of half of it: tracing makes a number of that (coqui-ai-TTS#315)."""
    shorter = {name: value[:, : value.shape[1] // 2] for name, value in inputs.items()}
    return legacy_onnx(module, shorter, path, dynamic_axes={name: {1: "length"} for name in inputs})


def float16_onnx(module, inputs, path):
    """Write ONNX in float16 by ONNX Runtime's tool, which cuts constants at 65504."""
    return inspect_file.to_float16(dynamo_onnx(module, inputs, path), path)


def optimised_onnx(module, inputs, path):
    """Write ONNX as ONNX Runtime optimises it, with its own fused operators."""
    plain = dynamo_onnx(module, inputs, path.with_name("plain.onnx"))
    with quietly():
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.optimized_model_filepath = str(path)
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
        onnxruntime.InferenceSession(str(plain), options, providers=["CPUExecutionProvider"])
    return path


def int8_onnx(module, inputs, path, products=("Conv", "MatMul", "Gemm", "LSTM")):
    """Write ONNX with activations quantised while running, one range each, and LSTMs of integers."""
    plain = dynamo_onnx(module, inputs, path.with_name("float32.onnx"))
    with quietly():
        from onnxruntime.quantization import QuantType, quantize_dynamic

        quantize_dynamic(inspect_file.bare(plain), path, op_types_to_quantize=[*products], weight_type=QuantType.QUInt8)
    return path


def qdq_onnx(module, inputs, path):
    """Write ONNX with float operators between QuantizeLinear and DequantizeLinear, each channel with a scale."""
    return _static(module, inputs, path, per_channel=True)


def qoperator_onnx(module, inputs, path):
    """Write ONNX with operators on integers."""
    from onnxruntime.quantization import QuantFormat

    return _static(module, inputs, path, quant_format=QuantFormat.QOperator)


def calibrated_onnx(module, inputs, path):
    """Write ONNX with convolutions of integers, whose ranges are those of inputs 20 times as quiet."""
    quiet = {name: value / 20 for name, value in inputs.items()}
    return _static(module, quiet, path, op_types_to_quantize=["Conv"])


def _static(module, inputs, path, **options):
    plain = dynamo_onnx(module, inputs, path.with_name("float32.onnx"))
    return inspect_file.to_int8(plain, path, arrays(inputs), **options)


def four_bit_onnx(module, inputs, path):
    """Write ONNX with weights of four bits in blocks."""
    return four_bits(dynamo_onnx(module, inputs, path.with_name("float32.onnx")), path)


def four_bits(plain, path):
    """Write an ONNX file anew with weights of four bits in blocks."""
    with quietly():
        import onnx
        from onnxruntime.quantization.matmul_nbits_quantizer import MatMulNBitsQuantizer

        tool = MatMulNBitsQuantizer(onnx.load(plain), bits=4, block_size=16, is_symmetric=True)
        tool.process()
        tool.model.save_model_to_file(str(path))
    return path


def pt2(module, inputs, path):
    """Write what `torch.export.save` writes."""
    with quietly():
        torch.export.save(_exported(module, inputs), path)
    return path


def portable_pte(module, inputs, path):
    """Write a program for ExecuTorch's portable kernels."""
    return _pte(_exported(module, inputs), [], path)


def xnnpack_pte(module, inputs, path):
    """Write a program for ExecuTorch with what XNNPACK takes delegated."""
    return _pte(_exported(module, inputs), [_xnnpack()], path)


def quantised_pte(module, inputs, path, spoil=lambda converted: None, quieter=1):
    """Write a program with int8 weights and activations on XNNPACK, calibrated on inputs that are quieter.

    `spoil` is given the module that is lowered.
    """
    with quietly():
        from executorch.backends.xnnpack.quantizer import xnnpack_quantizer as tools
        from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

        config = tools.get_symmetric_quantization_config(is_per_channel=True)
        prepared = prepare_pt2e(_exported(module, inputs).module(), tools.XNNPACKQuantizer().set_global(config))
        prepared(*(value / quieter for value in inputs.values()))
        converted = convert_pt2e(prepared)
        spoil(converted)
    return _pte(_exported(converted, inputs), [_xnnpack()], path)


def _exported(module, inputs):
    with quietly():
        return torch.export.export(module, tuple(inputs.values()))


def _xnnpack():
    with quietly():
        from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner

        return XnnpackPartitioner()


def _pte(program, partitioners, path):
    with quietly():
        from executorch.exir import to_edge_transform_and_lower

        edge = to_edge_transform_and_lower(program, partitioner=partitioners)
        path.write_bytes(edge.to_executorch().buffer)
    return path


def float32_mlpackage(module, inputs, path, precision="FLOAT32"):
    """Write a program for Core ML in float32."""
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


def float16_mlpackage(module, inputs, path):
    """Write a program for Core ML in float16, as coremltools does unasked."""
    return float32_mlpackage(module, inputs, path, "FLOAT16")


def quantised_mlpackage(module, inputs, path):
    """Write a program for Core ML with its weights in int8, each channel with a scale and a zero point."""
    plain = float32_mlpackage(module, inputs, path.with_name("plain.mlpackage"))
    with quietly():
        import coremltools as ct
        from coremltools.optimize import coreml as tools

        settings = tools.OpLinearQuantizerConfig(mode="linear", weight_threshold=0)
        model = ct.models.MLModel(str(plain), skip_model_load=True)
        tools.linear_quantize_weights(model, config=tools.OptimizationConfig(global_config=settings)).save(str(path))
    return path


FLOATS = (dynamo_onnx, legacy_onnx, float16_onnx, optimised_onnx)
INTEGERS = (int8_onnx, qdq_onnx, qoperator_onnx, four_bit_onnx)
OTHERS = (pt2, portable_pte, xnnpack_pte, quantised_pte, float32_mlpackage, float16_mlpackage, quantised_mlpackage)
FORMS = {one.__name__: one for one in (*FLOATS, *INTEGERS, *OTHERS)}
"""Name -> function that writes it; the last word of the name is what its files are called."""


def written(form, program, folder):
    """Write a program in a form, and return its path and the inputs by the names that the file knows them by."""
    module, inputs = program
    path = FORMS[form](module, inputs, folder / f"{form}.{form.rpartition('_')[2]}")
    unnamed = path.suffix == ".pte"  # which knows its inputs by their place alone
    given = {f"input_{k}" if unnamed else name: np.asarray(x) for k, (name, x) in enumerate(inputs.items())}
    return path, given
