"""Torch's ONNX exporter and ONNX Runtime on the CPU, both as they come."""

from collections.abc import Mapping

import numpy as np
import torch


def run(module: torch.nn.Module, *calls: Mapping[str, torch.Tensor]) -> list[np.ndarray]:
    """Export `module` for the first of `calls` and return its first output on each."""
    import onnxruntime

    program = torch.onnx.export(module.eval(), tuple(calls[0].values()), dynamo=True, verbose=False)
    assert program is not None
    session = onnxruntime.InferenceSession(program.model_proto.SerializeToString(), providers=["CPUExecutionProvider"])
    names = [node.name for node in session.get_inputs()]
    return [
        session.run(None, {name: value.numpy() for name, value in zip(names, inputs.values(), strict=True)})[0]
        for inputs in calls
    ]
