"""A module that is small and has a place for every kind of fault."""

import pytest
import torch
from torch import nn

from kokoro_nb.backends.exported import export_program


class Norm(nn.Module):
    """Instance norm with the variance written out."""

    def forward(self, x):
        centred = x - x.mean(-1, keepdim=True)
        variance = (centred * centred).mean(-1, keepdim=True)
        return centred * torch.rsqrt(variance + 1e-5)


class Tiny(nn.Module):
    """Everything that a fault can be planted at, on (1, 4, 12)."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.conv = nn.Conv1d(4, 4, 3, padding=1)
        self.norm = Norm()
        self.style = nn.Linear(4, 8)
        self.square = nn.Linear(4, 4)
        self.activation = nn.LeakyReLU(0.2)
        self.gelu = nn.GELU()

    def forward(self, x, s):
        gamma, beta = self.style(s).unsqueeze(-1).chunk(2, dim=1)
        y = self.norm(self.conv(x)) * (1 + gamma) + beta
        y = self.activation(y) + x
        y = nn.functional.pad(torch.cat([y, torch.sin(y)], 1), (2, 2), mode="reflect")[:, :, 1:13]
        z = self.gelu(self.square(y[:, :4].transpose(1, 2)))
        return torch.exp(z.clamp(-2.0, 2.0)) / (y[:, 4:8].transpose(1, 2) + 3.0)


@pytest.fixture(scope="package")
def inputs():
    """Return the inputs of `Tiny`."""
    source = torch.Generator().manual_seed(1)
    return {"x": torch.randn(1, 4, 12, generator=source), "s": torch.randn(1, 4, generator=source)}


@pytest.fixture(scope="package")
def exported(inputs):
    """Return `Tiny`, exported."""
    return export_program(Tiny(), inputs)


@pytest.fixture(scope="package")
def values(inputs):
    """Return a function that runs an exported program and returns the results of its operators, in order."""

    def run(exported):
        found = {}
        exported.specification.run(inputs, lambda name, result: found.update({name: result.clone()}))
        return found

    return run


@pytest.fixture(scope="package")
def healthy(exported, values):
    """Return the results of the operators of the healthy program."""
    return values(exported)
