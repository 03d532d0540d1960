"""Random numbers: torch's, from the seed that the file gives, and so not those that Core ML draws from it.

What a file seeds comes out the same in every call. What it does not seed, seed -1, Core ML draws anew in every call;
here the interpreter's own seed decides, and the interpreter names such operators.
"""

import torch
from torch import Tensor

from kokoro_nb.backends.mil.operators.registry import OperatorSite, operator


@operator("random_uniform")
def random_uniform(site: OperatorSite, shape: list[int], low: Tensor, high: Tensor) -> Tensor:
    """Draw evenly from low on to below high."""
    return low + (high - low) * torch.rand(shape, generator=site.generator).to(low.dtype)


@operator("random_normal")
def random_normal(site: OperatorSite, shape: list[int], mean: Tensor, stddev: Tensor) -> Tensor:
    """Draw from a normal distribution."""
    return mean + stddev * torch.randn(shape, generator=site.generator).to(mean.dtype)


@operator("random_bernoulli")
def random_bernoulli(site: OperatorSite, shape: list[int], prob: Tensor) -> Tensor:
    """Draw 1 with this probability, else 0."""
    return (torch.rand(shape, generator=site.generator) < prob.float()).to(prob.dtype)


@operator("random_categorical")
def random_categorical(site: OperatorSite, x: Tensor, mode: str, size: int) -> Tensor:
    """Draw places along the last axis, with replacement, by their probabilities or the logarithms of these."""
    weights = x.double() if mode == "probs" else torch.softmax(x.double(), dim=-1)
    drawn = torch.multinomial(weights.reshape(-1, x.shape[-1]), size, replacement=True, generator=site.generator)
    return drawn.reshape(*x.shape[:-1], size).to(x.dtype)
