"""One small module in every format, made once."""

from functools import cache

import pytest
import torch

from tests.corpus import forms


class Voice(torch.nn.Module):
    """A convolution, a norm, a sine, a linear layer and a running sum."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.conv, self.linear = torch.nn.Conv1d(4, 6, 3, padding=1), torch.nn.Linear(10, 5)
        self.norm = torch.nn.InstanceNorm1d(6, affine=True)

    def forward(self, x):
        return torch.nn.functional.leaky_relu(self.linear(torch.sin(self.norm(self.conv(x))))).cumsum(-1)


@pytest.fixture(scope="session")
def voice():
    """Return the module."""
    return Voice().eval()


@pytest.fixture(scope="session")
def pt2(voice, tmp_path_factory):
    """Return it as `torch.export.save` writes it."""
    return forms.pt2(voice, {"x": torch.randn(1, 4, 10)}, tmp_path_factory.mktemp("pt2") / "voice.pt2")


@pytest.fixture(scope="session")
def pte(voice, tmp_path_factory):
    """Return a function that writes it for ExecuTorch, with or without XNNPACK, and returns the path."""
    folder = tmp_path_factory.mktemp("pte")

    @cache
    def write(delegate=False):
        made = forms.xnnpack_pte if delegate else forms.portable_pte
        return made(voice, {"x": torch.randn(1, 4, 10)}, folder / f"voice_{delegate}.pte")

    return write


@pytest.fixture(scope="session")
def mlpackage(tmp_path_factory):
    """Return a function that converts a module to a float16 package and returns its path."""
    folder = tmp_path_factory.mktemp("coreml")
    return lambda module, x, name: forms.float16_mlpackage(module, {"x": x}, folder / f"{name}.mlpackage")
