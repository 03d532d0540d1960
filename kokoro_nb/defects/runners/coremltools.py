"""The converter of coremltools; what its program means is computed operator by operator, by Core ML's specification.

Prediction needs macOS. The few operators of the cases are all that is here.
"""

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch

HOW = (  # what the reader of a report has to know
    "Core ML is not needed: the script converts, and computes with NumPy what each operator of the converted program "
    "means by the documentation of MIL."
)
FLOAT = np.float32


def _scattered(data: Any, indices: Any, updates: Any, axis: Any, **_: Any) -> np.ndarray:
    out = np.array(data)
    np.put_along_axis(out, indices, updates, int(axis))
    return out


def _gelu(x: np.ndarray, mode: str) -> np.ndarray:
    if mode == "TANH_APPROXIMATION":
        return x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3))) / 2
    return x * (1 + np.vectorize(math.erf)(x / math.sqrt(2))) / 2


OPERATORS: dict[str, Callable[..., Any]] = {
    "add": lambda x, y: x + y,
    "atan": lambda x: np.arctan(x),
    "cast": lambda x, dtype: x.astype({"fp32": FLOAT, "int32": np.int32, "bool": bool}[str(dtype)]),
    "equal": lambda x, y: x == y,
    "fill_like": lambda value, ref_tensor: np.full_like(ref_tensor, value),
    "floor": lambda x: np.floor(x),
    "floor_div": lambda x, y: np.floor(x / y),
    "gelu": _gelu,
    "greater": lambda x, y: x > y,
    "identity": lambda x: x,
    "inverse": lambda x, epsilon: FLOAT(1) / (x + epsilon),
    "less": lambda x, y: x < y,
    "logical_and": lambda x, y: x & y,
    "logical_not": lambda x: ~x,
    "mul": lambda x, y: x * y,
    "real_div": lambda x, y: x / y,
    "reduce_sum": lambda x, axes, keep_dims: x.sum(tuple(axes), keepdims=bool(keep_dims)),
    "rsqrt": lambda x, epsilon: FLOAT(1) / np.sqrt(x + epsilon),
    "scatter_along_axis": _scattered,
    "select": lambda cond, a, b: np.where(cond, a, b),
    "sqrt": lambda x: np.sqrt(x),
    "sub": lambda x, y: x - y,
    "tanh": lambda x: np.tanh(x),
}


def run(module: torch.nn.Module, *calls: Mapping[str, torch.Tensor], traced: bool = False) -> list[np.ndarray]:
    """Convert `module` for the first of `calls` and return its first output on each.

    Parameters
    ----------
    calls : mapping
        Name -> tensor, float32 or int64 (which becomes int32).
    traced : bool
        Hand coremltools a trace and not an exported program.
    """
    function = _converted(module, calls[0], traced)
    return [_computed(function, dict(zip(function.inputs, inputs.values(), strict=True))) for inputs in calls]


def _converted(module: torch.nn.Module, inputs: Mapping[str, torch.Tensor], traced: bool) -> Any:
    """Return the MIL function that coremltools makes of a module."""
    import coremltools as ct

    made = (torch.jit.trace if traced else torch.export.export)(module.eval(), tuple(inputs.values()))
    takes = [ct.TensorType(name, x.shape, np.int32 if x.dtype == torch.int64 else FLOAT) for name, x in inputs.items()]
    how: Any = {"minimum_deployment_target": ct.target.iOS17, "compute_precision": ct.precision.FLOAT32}
    program = made if traced else made.run_decompositions({})
    model = ct.convert(program, source="pytorch", inputs=takes, skip_model_load=True, **how)
    return model._mil_program.functions["main"]


def _computed(function: Any, inputs: Mapping[str, torch.Tensor]) -> np.ndarray:
    """Return the first output of a MIL function."""
    values = {name: np.asarray(x, FLOAT if x.is_floating_point() else None) for name, x in inputs.items()}

    def value(variable: Any) -> Any:
        return values.get(variable.name, variable.val)

    with np.errstate(all="ignore"):
        for operation in function.operations:
            if operation.op_type != "const":
                named = {name: value(given) for name, given in operation.inputs.items()}
                values[operation.outputs[0].name] = OPERATORS[operation.op_type](**named)
    return np.asarray(value(function.outputs[0]))
