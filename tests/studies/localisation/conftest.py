import pytest
import torch
from torch import nn

from kokoro_nb.backends.exported import export_program
from kokoro_nb.studies.decoder import DecoderProgram


class Small(nn.Module):
    """Seven operators."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.conv = nn.Conv1d(3, 3, 3, padding=1)

    def forward(self, x):
        y = torch.sin(self.conv(x)) + x
        return torch.exp((y - y.mean(-1, keepdim=True)).clamp(-8.0, 8.0))


@pytest.fixture(scope="package")
def small():
    """Return a program of seven operators, and inputs."""
    x = torch.randn(1, 3, 10, generator=torch.Generator().manual_seed(1))
    return DecoderProgram(export_program(Small(), {"x": x}), {"x": x})
