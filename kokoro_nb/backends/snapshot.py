"""Copies of modules that stay what they were, and whether running a module changes it."""

import copy
import sys
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any

PATCHES = "kokoro_nb.models.patches"


def snapshot(module: Any, double: bool = False) -> Any:
    """Return a deep copy of `module` in evaluation mode whose tensors need no gradient; `module` is left as it is.

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
    twin.eval().requires_grad_(False)
    if double:
        twin.double()
        for part in twin.modules():
            for name, value in list(vars(part).items()):
                if isinstance(value, torch.Tensor) and value.is_floating_point():
                    setattr(part, name, value.double())
    return twin


def state_marks(module: Any) -> dict[str, tuple[int, int]]:
    """Return what changes when a parameter or buffer of `module` is replaced or written: its identity and version."""
    tensors = {**dict(module.named_parameters()), **dict(module.named_buffers())}
    return {name: (id(tensor), tensor._version) for name, tensor in tensors.items()}


def active_patches() -> tuple[str, ...]:
    """Return the names of Kokoro's class-level patches that are on; none can be before their module is imported."""
    patches = sys.modules.get(PATCHES)
    return patches.active() if patches is not None else ()


def with_patches(names: tuple[str, ...]) -> AbstractContextManager[None]:
    """Have exactly the class-level patches `names` on inside."""
    patches = sys.modules.get(PATCHES)
    return patches.class_patches(names) if patches is not None else nullcontext()


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
