"""Copies of modules that stay what they were, and whether running a module changes it."""

import copy
from collections.abc import Iterator, Mapping
from typing import Any


def snapshot(module: Any, double: bool = False) -> Any:
    """Return a deep copy of `module` in evaluation mode; `module` is left as it is.

    Parameters
    ----------
    module : torch.nn.Module
        Any module; weights that old-style `weight_norm` computed are copied too, which `copy.deepcopy` alone refuses.
    double : bool
        Convert every float tensor to float64: parameters, buffers, and attributes that are neither.
    """
    import torch

    computed = (t for part in module.modules() for t in _plain_tensors(vars(part)) if not t.is_leaf)
    twin = copy.deepcopy(module, {id(tensor): tensor.detach().clone() for tensor in computed})
    twin.eval()
    if double:
        twin.double()
        for part in twin.modules():
            for name, value in list(vars(part).items()):
                if isinstance(value, torch.Tensor) and value.is_floating_point():
                    setattr(part, name, value.double())
    return twin


State = Mapping[str, tuple[Any, int]]


def state(module: Any) -> State:
    """Return every parameter and buffer of `module` with its version, the number of times it was written in place."""
    tensors = {**dict(module.named_parameters()), **dict(module.named_buffers())}
    return {name: (tensor, tensor._version) for name, tensor in tensors.items()}


def wrote(before: State, after: State) -> bool:
    """Return whether a tensor of `after` is not the one of `before`, or was written since: the module keeps state."""
    return any(
        name not in before or before[name][0] is not tensor or before[name][1] != version
        for name, (tensor, version) in after.items()
    )


def _plain_tensors(value: Any) -> Iterator[Any]:
    import torch

    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from _plain_tensors(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _plain_tensors(item)
