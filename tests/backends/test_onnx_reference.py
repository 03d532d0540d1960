"""The reference implementation of ONNX, and what of it had to be mended."""

import numpy as np
import onnx
import pytest
import torch
from onnx.reference import ReferenceEvaluator
from torch import nn

from kokoro_nb.backends import BACKENDS
from kokoro_nb.backends.exported import export_program

X = torch.randn(1, 6, 5, generator=torch.Generator().manual_seed(0))


class Up(nn.Module):
    def __init__(self, groups, bias):
        super().__init__()
        torch.manual_seed(1)
        self.conv = nn.ConvTranspose1d(6, 6, 4, stride=3, padding=1, output_padding=1, groups=groups, bias=bias)

    def forward(self, x):
        return self.conv(x)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("groups", [1, 2, 6])
def test_transposed_convolution_with_groups_agrees_with_torch(groups, bias):
    module = Up(groups, bias)
    output = BACKENDS["onnxruntime"].graph(export_program(module, {"x": X})).run({"x": X})["output"]
    with torch.no_grad():
        expected = module.double()(X.double())
    np.testing.assert_allclose(output, expected.numpy(), atol=2e-6)  # 24 products of size 1 in float32


@pytest.mark.xfail(reason="onnx 1.23 gives every group the bias of channel 0", strict=True)
def test_onnx_computes_a_grouped_transposed_convolution_by_itself(tmp_path):
    module = Up(6, True)
    made = BACKENDS["onnxruntime"].export(module, {"x": X}, tmp_path)
    model = onnx.load(made.path)
    (output,) = ReferenceEvaluator(model).run(None, {"x": X.numpy()})
    with torch.no_grad():
        np.testing.assert_allclose(output, module(X).numpy(), atol=2e-6)
