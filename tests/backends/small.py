"""What tests of several backends share."""

import pytest
import torch
from torch import nn

from kokoro_nb.backends import BACKENDS
from kokoro_nb.backends.base import absence


class Of(nn.Module):
    """A function as a module, with tensors that are its parameters after the first."""

    def __init__(self, function, *tensors):
        super().__init__()
        self.function, self.tensors = function, nn.ParameterList(tensors)

    def forward(self, x, w=None):
        return self.function(x, *self.tensors, *(() if w is None else (w,)))


def taking(function):
    """Return a function as a module whose inputs go by its own names; PyTorch notes no line of it for an operator."""
    module = nn.Module()
    module.forward = function
    return module


class First(nn.Module):
    """The first result of a layer, as an LSTM has several."""

    def __init__(self, layer):
        super().__init__()
        self.layer = layer

    def forward(self, x):
        return self.layer(x)[0]


class Layers(nn.Sequential):
    """Layers one after the other, whose input is called ``x``."""

    def forward(self, x):
        return super().forward(x)


class Past(nn.Module):
    """A streaming operator that keeps the end of what it has seen, times `kept`."""

    def __init__(self, shape, start=0.0, kept=1.0, persistent=True):
        super().__init__()
        self.kept = kept
        self.register_buffer("past", torch.full(shape, start), persistent=persistent)

    def forward(self, x):
        joined = torch.cat([self.past, x], 2)
        self.past.copy_(joined[..., -self.past.shape[2] :] * self.kept)
        return torch.tanh(joined)


class Here:
    """What a runtime that a test makes says of itself."""

    def available(self):
        return None

    executes = available


def results(exported, inputs):
    """Return the result of every operator of an exported program as an array, by its name."""
    found = {}
    exported.specification.run(inputs, lambda name, value: found.update({name: value.numpy().copy()}))
    return found


def present(name, reason=lambda backend: backend.available()):
    """Return the backend of that name; skip the test where it is absent."""
    absent = reason(BACKENDS[name])
    return BACKENDS[name] if absent is None else pytest.skip(absent)


def here(name):
    """Return the backend of that name; skip the test where it is absent or cannot run its programs."""
    return present(name, absence)
