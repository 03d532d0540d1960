"""Instance norms with mean and variance known beforehand, so that speech can be decoded part by part.

`nn.InstanceNorm1d` takes both from the whole utterance: no sample of it is known before the last frame is, and a part
decoded alone sounds different from the same part of the whole. With those of other sentences in the same voice the
decoder sees no further than its convolutions reach, a quarter of a second, and parts decoded with so much on either
side are the samples of the whole. Whether other sentences stand for this one is a matter of the voice: measure it.
"""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from kokoro_nb.errors import InputError
from kokoro_nb.models.replaced_parts import change_classes


@dataclass(frozen=True)
class NormStatistics:
    """Mean and variance of what the norms of a model are given.

    Attributes
    ----------
    mean, variance : dict of str to torch.Tensor
        Name of the norm in the model -> (channels,), float32.
    """

    mean: dict[str, Tensor]
    variance: dict[str, Tensor]


def norm_statistics(module: nn.Module, utterances: Iterable[Mapping[str, Tensor]]) -> NormStatistics:
    """Return the statistics of every norm of `module` over several calls, each frame counted once.

    Parameters
    ----------
    module : torch.nn.Module
        Any with `nn.InstanceNorm1d` inside: a stage of `kokoro_nb.models.stages`.
    utterances : iterable of mapping
        Inputs of each call, by name.

    Raises
    ------
    InputError
        If there is no call, or no norm that is run.
    """
    sums: dict[str, list[Tensor]] = {}

    def watch(name: str) -> "torch.utils.hooks.RemovableHandle":
        def add(_norm: nn.Module, given: tuple[Tensor, ...]) -> None:
            x = given[0].double()
            frames = torch.tensor(float(x.shape[0] * x.shape[-1]), dtype=x.dtype)
            new = [frames, x.sum((0, -1)), (x * x).sum((0, -1))]
            sums[name] = [a + b for a, b in zip(sums[name], new, strict=True)] if name in sums else new

        return norms[name].register_forward_pre_hook(add)

    norms = _norms(module)
    handles = [watch(name) for name in norms]
    try:
        with torch.no_grad():
            for inputs in utterances:
                module(**inputs)
    finally:
        for handle in handles:
            handle.remove()
    if not sums:
        raise InputError("No instance norm was run, so there are no statistics; give a decoder, and some utterances.")
    mean = {name: total / frames for name, (frames, total, _) in sums.items()}
    variance = {name: squares / frames - mean[name] ** 2 for name, (frames, _, squares) in sums.items()}
    return NormStatistics(
        {name: each.float() for name, each in mean.items()},
        {name: each.clamp(min=0).float() for name, each in variance.items()},
    )


class FixedInstanceNorm1d(nn.InstanceNorm1d):
    """An `nn.InstanceNorm1d` whose mean and variance, (channels,), are its own buffers."""

    mean: Tensor
    variance: Tensor

    def forward(self, input: Tensor) -> Tensor:
        """Return the input less the mean over the deviation, with the affine if there is one.

        The input is (batch, channels, frames), or with an axis of one before the frames.
        """
        scale = torch.rsqrt(self.variance + self.eps)
        if self.affine:
            scale = scale * self.weight
        shift = -self.mean * scale
        if self.affine:
            shift = shift + self.bias
        shape = (-1, *(1,) * (input.ndim - 2))
        return input * scale.view(shape) + shift.view(shape)


@contextmanager
def fixed_norms(module: nn.Module, statistics: NormStatistics) -> Iterator[None]:
    """Have the norms of `module` compute with these statistics inside, and as before afterwards.

    Parameters
    ----------
    module : torch.nn.Module
        The one whose statistics they are, or one of its form. An export made inside has them as constants.
    statistics : NormStatistics
        Of all norms that it has.

    Raises
    ------
    InputError
        If a norm has none, or those of another number of channels.
    """
    norms = _norms(module)
    for name, norm in norms.items():
        if name not in statistics.mean or statistics.mean[name].shape != (norm.num_features,):
            raise InputError(f"The norm {name} has no statistics of {norm.num_features} channels; record them.")
    for name, norm in norms.items():
        norm.register_buffer("mean", statistics.mean[name], persistent=False)
        norm.register_buffer("variance", statistics.variance[name], persistent=False)
    undo = change_classes(dict.fromkeys(norms.values(), FixedInstanceNorm1d))
    try:
        yield
    finally:
        undo()
        for norm in norms.values():
            del norm.mean, norm.variance


def _norms(module: nn.Module) -> dict[str, nn.InstanceNorm1d]:
    return {name: one for name, one in module.named_modules() if isinstance(one, nn.InstanceNorm1d)}
