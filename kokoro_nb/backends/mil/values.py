"""The variables of a MIL program, and the tensors that stand for them."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from kokoro_nb.backends.mil.operators.registry import StateContent


def torch_dtype(primitive: Any) -> torch.dtype:
    """Return torch's dtype for a primitive type of MIL; integers of fewer than 8 bits are stored in 8."""
    from coremltools.converters.mil.mil import types

    return getattr(torch, np.dtype(types.nptype_from_builtin(primitive)).name)


def declared_dtype(variable: Any) -> torch.dtype | None:
    """Return the dtype that a program declares of a variable; None of a list, a state or a text."""
    from coremltools.converters.mil.mil import types

    kind = variable.sym_type
    if types.is_tensor(kind):
        kind = kind.get_primitive()
    return None if kind == types.str or types.is_list(kind) or types.is_state(kind) else torch_dtype(kind)


def is_list(variable: Any) -> bool:
    """Return whether a variable is a list of tensors."""
    from coremltools.converters.mil.mil import types

    return bool(types.is_list(variable.sym_type))


def fits(shape: tuple[int, ...], declared: tuple[Any, ...]) -> bool:
    """Return whether a shape is the declared one; a symbol there stands for any size.

    >>> fits((2, 3), (2, 3)), fits((2, 3), (2, 4)), fits((1,), ())
    (True, False, False)
    """
    return len(shape) == len(declared) and all(
        not isinstance(size, int | np.integer | float) or size == have
        for have, size in zip(shape, declared, strict=True)
    )


def constant(variable: Any) -> Any:
    """Return the value of a constant: a tensor that shares its memory, a text, or a list of these."""
    value = variable.val
    if isinstance(value, str):
        return value
    array = np.asarray(value)
    if array.dtype.kind in "US":
        return array.tolist()
    array = array.view(np.dtype(array.dtype.str))  # without coremltools' mark of fewer than 8 bits
    return torch.from_numpy(array if array.flags.writeable else array.copy())


def shown(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return values for somebody to look at: tensors, and the content of states, as read-only arrays."""
    return {name: _array(value) for name, value in values.items()}


def _array(value: Any) -> Any:
    if isinstance(value, list):
        return [_array(one) for one in value]
    value = value.content if isinstance(value, StateContent) else value
    if not isinstance(value, Tensor):
        return value
    array = value.numpy().view()
    array.flags.writeable = False
    return array
