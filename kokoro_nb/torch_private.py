"""What PyTorch does not document and this package reads; no other module names it, but Inductor's backend its own."""

from contextlib import suppress
from typing import Any

from kokoro_nb.errors import undocumented

SEEN_IN = {"torch": ("2.8", "2.14")}


def schema(operator: Any) -> Any:
    """Return the schema of an operator, which has its ``arguments``; None of anything else."""
    return getattr(operator, "_schema", None)


def writes(tensor: Any) -> int:
    """Return how many times a tensor was written in place; 0 where PyTorch does not count."""
    return getattr(tensor, "_version", 0)


def storage(tensor: Any) -> int:
    """Return what tells the memory of a tensor from any other, also where it holds no data."""
    return tensor.untyped_storage()._cdata


def pre_hooks(module: Any) -> Any:
    """Return the mapping of what is called before a module, which may be changed."""
    return module._forward_pre_hooks


def submodules(module: Any) -> Any:
    """Return the modules directly in one, None where there is none; also while `torch.export` lays a proxy over it."""
    return vars(module)["_modules"].values()


def structure(tree: Any) -> Any:
    """Return how arguments are nested, as an exported program describes it."""
    return undocumented("torch.utils._pytree", "tree_structure", "No part can be compiled", SEEN_IN)(tree)


def decomposition(operator: Any) -> Any | None:
    """Return what PyTorch takes an operator apart into; None where it does not, or does not say."""
    with suppress(ImportError, AttributeError):
        from torch._decomp import decomposition_table

        return decomposition_table.get(operator) or (operator.decompose if operator._can_decompose() else None)
    return None
