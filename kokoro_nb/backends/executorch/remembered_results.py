"""Shape, dtype and strides of an operator's results, remembered by the tensors without values that it is given."""

from collections.abc import Callable
from typing import Any


class RememberedResults:
    """What operators return for tensors without values, found again where the same tensors are given once more.

    A pass of ExecuTorch computes them anew for each operator of a graph, and nearly all are given what they were given
    in the pass before. Where such a tensor stands for a constant, that changes as little as its shape: an operator that
    writes is called each time, as is one whose result has a size that is not known.

    Parameters
    ----------
    call : callable
        Calls an operator.
    """

    def __init__(self, call: Callable[..., Any]) -> None:
        self._call = call
        self._known: dict[Any, tuple[Any, Any]] = {}

    def of(self, operator: Any, *args: Any, **kwargs: Any) -> Any:
        """Return what the operator returns."""
        given = (*args, *kwargs.items())
        if operator._schema.is_mutable:
            return self._call(operator, *args, **kwargs)
        key = operator, _key(given)
        if key not in self._known:
            result = self._call(operator, *args, **kwargs)
            if not _is_known(result):
                return result
            self._known[key] = given, result  # as long as a tensor is here no other one takes its place in memory
        return self._known[key][1]


def _key(given: Any) -> Any:
    import torch

    if isinstance(given, list | tuple):
        return tuple(map(_key, given))
    return id(given) if isinstance(given, torch.Tensor) else repr(given)


def _is_known(result: Any) -> bool:
    """Return whether a result is one tensor of known size, or several, and for shapes alone."""
    from torch._subclasses.fake_tensor import FakeTensor

    if isinstance(result, list | tuple):
        return all(map(_is_known, result))
    return isinstance(result, FakeTensor) and all(type(size) is int for size in result.shape)
