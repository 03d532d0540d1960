"""Activation functions, written out in elementary steps so that float16 can be rounded after each."""

import math

import torch
from torch import Tensor

from kokoro_nb.backends.mil import accumulation
from kokoro_nb.backends.mil.operators.registry import operator, table


def logistic(x: Tensor) -> Tensor:
    """Return 1 / (1 + exp(-x))."""
    return 1 / (1 + torch.exp(-x))


def positive(x: Tensor) -> Tensor:
    """Return the larger of x and 0; NaN stays NaN."""
    return torch.clamp(x, min=0)


@operator("softmax")
def softmax(x: Tensor, axis: int) -> Tensor:
    """Return exp(x - max) divided by its sum along the axis."""
    raised = torch.exp(x - torch.amax(x, dim=axis, keepdim=True))
    return raised / accumulation.total(raised, [axis], keep=True)


@operator("softplus")
def softplus(x: Tensor) -> Tensor:
    """Return log(1 + exp(x)), without overflow."""
    return torch.log1p(torch.exp(-torch.abs(x))) + positive(x)


@operator("gelu")
def gelu(x: Tensor, mode: str) -> Tensor:
    """Return x times the normal distribution's cumulative, exact or by its approximation with tanh or sigmoid."""
    if mode == "TANH_APPROXIMATION":
        return 0.5 * x * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * (x * x * x))))
    if mode == "SIGMOID_APPROXIMATION":
        return x * logistic(1.702 * x)
    return 0.5 * x * (1 + torch.erf(x / math.sqrt(2)))


def _per_channel(parameter: Tensor, x: Tensor) -> Tensor:
    return parameter.reshape(-1, *[1] * (x.ndim - 2))


table(
    {
        "sigmoid": logistic,
        "silu": lambda x: x * logistic(x),
        "relu": positive,
        "relu6": lambda x: torch.clamp(x, 0, 6),
        "clamped_relu": lambda x, alpha, beta: torch.minimum(torch.where(x < 0, alpha * x, x), beta),
        "leaky_relu": lambda x, alpha: torch.where(x < 0, x * alpha, x),
        "prelu": lambda x, alpha: torch.where(x < 0, x * _per_channel(alpha, x), x),
        "thresholded_relu": lambda x, alpha: torch.where(x < alpha, torch.zeros_like(x), x),
        "elu": lambda x, alpha: torch.where(x < 0, alpha * (torch.exp(x) - 1), x),
        "linear_activation": lambda x, alpha, beta: alpha * x + beta,
        "scaled_tanh": lambda x, alpha, beta: alpha * torch.tanh(x * beta),
        "sigmoid_hard": lambda x, alpha, beta: torch.clamp(alpha * x + beta, 0, 1),
        "softplus_parametric": lambda x, alpha, beta: _per_channel(alpha, x) * softplus(x * _per_channel(beta, x)),
        "softsign": lambda x: x / (1 + torch.abs(x)),
    }
)
