"""Modules of a user's own, each by a function that the command line is given, and what is none."""

import torch

X = {"x": torch.linspace(0.5, 2, 12).reshape(1, 3, 4)}


class Net(torch.nn.Module):
    def forward(self, x):
        return (x.sin() * 2).exp() + 1


class Angle(torch.nn.Module):
    def forward(self, x):
        return torch.atan2(0 * x, -x)


class Gain(torch.nn.Module):
    def forward(self, x):
        return torch.exp(x * 2.0)


def example():
    return Net(), X


def sick():
    return Angle(), X


def gain():
    return Gain(), {"x": torch.linspace(-1, 1, 12).reshape(3, 4)}


def nothing():
    return Net()


def broken():
    return Net(), {"x": "text"}


def raising():
    raise KeyError("weights")


def other():
    torch.manual_seed(0)
    return torch.nn.Linear(4, 8), {"input": torch.ones(1, 3, 4)}


def normed():
    torch.manual_seed(0)
    module = torch.nn.Sequential(
        torch.nn.utils.parametrizations.weight_norm(torch.nn.ConvTranspose1d(4, 6, 3)),
        torch.nn.Conv1d(6, 5, 3),
        torch.nn.BatchNorm1d(5),
    )
    with torch.no_grad():
        module[0].parametrizations.weight.original0.mul_(torch.rand(4, 1, 1) + 0.5)
        module[2].running_var.copy_(torch.rand(5) + 0.5)
    return module.eval(), {"input": torch.randn(1, 4, 9)}


def padded():
    module = torch.nn.InstanceNorm1d(3)
    x = torch.randn(1, 3, 6, generator=torch.Generator().manual_seed(0)) + 1
    return module, {"input": torch.nn.functional.pad(x, (0, 10))}, (module, {"input": x})


number = 3
