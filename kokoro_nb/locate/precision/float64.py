"""One operator of a MIL program computed in float64 on values of somebody's choice."""

from collections.abc import Mapping
from typing import Any

import numpy as np


def exact(operation: Any, values: Mapping[str, Any], opset: int) -> list[np.ndarray] | None:
    """Compute an operator in float64.

    Parameters
    ----------
    operation : coremltools.converters.mil.mil.Operation
        The operator; constants among its inputs are taken as it has them.
    values : mapping
        Its other inputs by MIL's names: arrays, or lists of arrays.
    opset : int
        Number of the program's operator set.

    Returns
    -------
    list of numpy.ndarray or None
        Its results. None where they do not follow from the inputs alone (conditions, loops, states, random numbers).
    """
    import torch

    from kokoro_nb.backends.mil.operators import OPERATORS
    from kokoro_nb.backends.mil.operators.registry import Site
    from kokoro_nb.backends.mil.rounding import FLOAT64
    from kokoro_nb.backends.mil.values import constant, declared_dtype

    def tensor(variable: Any, value: Any) -> Any:
        if isinstance(variable, list | tuple):
            return [tensor(one, each) for one, each in zip(variable, value or [None] * len(variable), strict=True)]
        if _is_constant(variable):
            return FLOAT64.constant(constant(variable))
        return FLOAT64.constant(torch.from_numpy(np.array(value)))

    dtypes = tuple(declared_dtype(output) for output in operation.outputs)
    given = {name for name, variable in operation.inputs.items() if not _is_constant(variable)}
    if operation.blocks or "seed" in operation.inputs or None in dtypes or not given <= values.keys():
        return None
    inputs = {
        name: tensor(variable, values.get(name))
        for name, variable in operation.inputs.items()
        if not name.startswith("_")
    }
    wide = tuple(torch.float64 if dtype is not None and dtype.is_floating_point else dtype for dtype in dtypes)
    with torch.no_grad():
        results = OPERATORS[operation.op_type](Site(operation.op_type, operation.name, opset, wide), **inputs)
    return [result.numpy() for result in (results if isinstance(results, list | tuple) else [results])]


def _is_constant(variable: Any) -> bool:
    """Return whether a variable, or each of a list, is a constant of the program."""
    several = variable if isinstance(variable, list | tuple) else [variable]
    return all(one.op is not None and one.op.op_type == "const" for one in several)
