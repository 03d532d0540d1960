"""Activation functions, written out in elementary steps so that float16 can be rounded after each."""

import math

import torch
from torch import Tensor

from kokoro_nb.backends.mil import accumulation
from kokoro_nb.backends.mil.operators.registry import Site, operator


def logistic(x: Tensor) -> Tensor:
    """Return 1 / (1 + exp(-x))."""
    return 1 / (1 + torch.exp(-x))


def positive(x: Tensor) -> Tensor:
    """Return the larger of x and 0; NaN stays NaN."""
    return torch.clamp(x, min=0)


def normalised_exponentials(x: Tensor, axis: int) -> Tensor:
    """Return the softmax along `axis`: exp(x - max) divided by its sum."""
    raised = torch.exp(x - torch.amax(x, dim=axis, keepdim=True))
    return raised / accumulation.total(raised, [axis], keep=True)


def _per_channel(parameter: Tensor, x: Tensor) -> Tensor:
    return parameter.reshape(-1, *[1] * (x.ndim - 2))


@operator("sigmoid")
def sigmoid(site: Site, x: Tensor) -> Tensor:
    """Return 1 / (1 + exp(-x))."""
    return logistic(x)


@operator("silu")
def silu(site: Site, x: Tensor) -> Tensor:
    """Return x sigmoid(x)."""
    return x * logistic(x)


@operator("relu")
def relu(site: Site, x: Tensor) -> Tensor:
    """Return max(x, 0)."""
    return positive(x)


@operator("relu6")
def relu6(site: Site, x: Tensor) -> Tensor:
    """Return min(max(x, 0), 6)."""
    return torch.clamp(x, 0, 6)


@operator("clamped_relu")
def clamped_relu(site: Site, x: Tensor, alpha: Tensor, beta: Tensor) -> Tensor:
    """Return min(beta, x) where x is at least 0, min(beta, alpha x) elsewhere."""
    return torch.minimum(torch.where(x < 0, alpha * x, x), beta)


@operator("leaky_relu")
def leaky_relu(site: Site, x: Tensor, alpha: Tensor) -> Tensor:
    """Return alpha x where x is negative, x elsewhere."""
    return torch.where(x < 0, x * alpha, x)


@operator("prelu")
def prelu(site: Site, x: Tensor, alpha: Tensor) -> Tensor:
    """Return alpha x, alpha by channel, where x is negative, x elsewhere."""
    return torch.where(x < 0, x * _per_channel(alpha, x), x)


@operator("thresholded_relu")
def thresholded_relu(site: Site, x: Tensor, alpha: Tensor) -> Tensor:
    """Return 0 where x is below alpha, x elsewhere."""
    return torch.where(x < alpha, torch.zeros_like(x), x)


@operator("elu")
def elu(site: Site, x: Tensor, alpha: Tensor) -> Tensor:
    """Return alpha (exp(x) - 1) where x is negative, x elsewhere."""
    return torch.where(x < 0, alpha * (torch.exp(x) - 1), x)


@operator("gelu")
def gelu(site: Site, x: Tensor, mode: str) -> Tensor:
    """Return x times the normal distribution's cumulative, exact or by its approximation with tanh or sigmoid."""
    if mode == "TANH_APPROXIMATION":
        return 0.5 * x * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * (x * x * x))))
    if mode == "SIGMOID_APPROXIMATION":
        return x * logistic(1.702 * x)
    return 0.5 * x * (1 + torch.erf(x / math.sqrt(2)))


@operator("linear_activation")
def linear_activation(site: Site, x: Tensor, alpha: Tensor, beta: Tensor) -> Tensor:
    """Return alpha x + beta."""
    return alpha * x + beta


@operator("scaled_tanh")
def scaled_tanh(site: Site, x: Tensor, alpha: Tensor, beta: Tensor) -> Tensor:
    """Return alpha tanh(beta x)."""
    return alpha * torch.tanh(x * beta)


@operator("sigmoid_hard")
def sigmoid_hard(site: Site, x: Tensor, alpha: Tensor, beta: Tensor) -> Tensor:
    """Return alpha x + beta, kept within 0 and 1."""
    return torch.clamp(alpha * x + beta, 0, 1)


@operator("softplus")
def softplus(site: Site, x: Tensor) -> Tensor:
    """Return log(1 + exp(x)), without overflow."""
    return torch.log1p(torch.exp(-torch.abs(x))) + positive(x)


@operator("softplus_parametric")
def softplus_parametric(site: Site, x: Tensor, alpha: Tensor, beta: Tensor) -> Tensor:
    """Return alpha log(1 + exp(beta x)), alpha and beta by channel."""
    return _per_channel(alpha, x) * softplus(site, x * _per_channel(beta, x))


@operator("softsign")
def softsign(site: Site, x: Tensor) -> Tensor:
    """Return x / (1 + abs(x))."""
    return x / (1 + torch.abs(x))


@operator("softmax")
def softmax(site: Site, x: Tensor, axis: Tensor) -> Tensor:
    """Return exp(x - max) divided by its sum along the axis."""
    return normalised_exponentials(x, int(axis))
