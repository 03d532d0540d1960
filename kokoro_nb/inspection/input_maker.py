"""Inputs for a file that came without any: made from what its graph says of them, and tried on the runtime."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from kokoro_nb.errors import InputError
from kokoro_nb.inspection.onnx_file import OnnxFile
from kokoro_nb.inspection.onnx_session import run_session, session_of

SIZES = (16, 24, 64, 8, 4, 2, 1, 128)
"""Lengths that are tried for an axis that the file leaves open."""
PASSING = frozenset({"Cast", "Unsqueeze", "Squeeze", "Reshape", "Identity", "Flatten", "Transpose", "Slice", "Expand"})
COUNTS = {"speed": 1.0, "temperature": 0.667, "noise_scale": 0.667, "length_scale": 1.0}
"""Numbers that models of speech are given under these names."""
POSITIVE = ("power", "energy", "magnitude", "amplitude", "variance", "duration")
"""Parts of names of inputs that are never negative."""


@dataclass(frozen=True, eq=False)
class MadeInputs:
    """Inputs of a file with how each was made.

    Attributes
    ----------
    arrays : dict of str to numpy.ndarray
        By name, in the types of the file.
    how : dict of str to str
        How each was made, in words.
    """

    arrays: dict[str, np.ndarray]
    how: dict[str, str]


def given_inputs(file: OnnxFile, given: Mapping[str, Any]) -> MadeInputs:
    """Return what the caller gave, checked against what the file wants.

    Raises
    ------
    InputError
        If an input is missing, is unknown, or has another type or shape than the file says.
    """
    from onnx import helper

    names = [value.name for value in file.inputs]
    unknown, missing = sorted(set(given) - set(names)), [name for name in names if name not in given]
    if unknown or missing:
        what = f"there is no input '{unknown[0]}'" if unknown else f"the input '{missing[0]}' is missing"
        raise InputError(f"{what[0].upper()}{what[1:]}; the file has {', '.join(names) or 'none'}.")
    arrays = {}
    for value in file.inputs:
        array = np.asarray(given[value.name])
        dtype = helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type)
        if array.dtype != dtype:
            if array.dtype.kind != dtype.kind:
                raise InputError(f"The input '{value.name}' has the type {array.dtype}; the file wants {dtype}.")
            array = array.astype(dtype)
        sizes = [dim.dim_value for dim in value.type.tensor_type.shape.dim]
        fits = len(sizes) == array.ndim and all(s in (0, n) for s, n in zip(sizes, array.shape, strict=True))
        if value.type.tensor_type.HasField("shape") and not fits:
            raise InputError(f"The input '{value.name}' has the shape {array.shape}; the file wants {_shape(value)}.")
        arrays[value.name] = array
    return MadeInputs(arrays, dict.fromkeys(names, "given"))


def _shape(value: Any) -> str:
    dims = [dim.dim_param or str(dim.dim_value or "?") for dim in value.type.tensor_type.shape.dim]
    return f"({', '.join(dims)})"


def made_inputs(file: OnnxFile, seed: int = 0) -> MadeInputs:
    """Make inputs that the runtime takes: open axes of one name get one length, indices stay within what they index.

    Raises
    ------
    InputError
        If none that were tried are taken.
    """
    session = session_of(file.model)
    bounds = {value.name: index_bound(file, value.name) for value in file.inputs}
    last = ""
    for size in SIZES:
        made = _draft(file, size, bounds, seed)
        try:
            run_session(session, made.arrays)
        except InputError as error:
            last = last or str(error)
            continue
        return made
    raise InputError(f"No inputs that were made for {file.path} run on it; give --inputs. {last}")


def _draft(file: OnnxFile, size: int, bounds: Mapping[str, int | None], seed: int) -> MadeInputs:
    generator = np.random.default_rng(seed)
    sizes: dict[str, int] = {}
    arrays, how = {}, {}
    for value in file.inputs:
        shape, open_axes = [], []
        for axis, dim in enumerate(value.type.tensor_type.shape.dim):
            if dim.HasField("dim_value") and dim.dim_value > 0:
                shape.append(dim.dim_value)
                continue
            name = dim.dim_param or f"{value.name}.{axis}"
            leading = axis == 0 and len(value.type.tensor_type.shape.dim) > 1
            first = 1 if leading or "batch" in name.lower() else size
            shape.append(sizes.setdefault(name, first))
            open_axes.append(f"{name} = {sizes[name]}")
        array, words = _values(value, tuple(shape), bounds[value.name], size, generator)
        arrays[value.name] = array
        how[value.name] = f"{words}, shape {array.shape}" + (f" ({', '.join(open_axes)})" if open_axes else "")
    return MadeInputs(arrays, how)


def _values(
    value: Any, shape: tuple[int, ...], bound: int | None, size: int, generator: np.random.Generator
) -> tuple[np.ndarray, str]:
    """Return values of one input, and how they were made."""
    from onnx import helper

    if value.type.WhichOneof("value") != "tensor_type":
        raise InputError(f"The input '{value.name}' is no tensor; give --inputs.")
    dtype = helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type)
    name = value.name.lower()
    if dtype.kind == "b":
        return np.ones(shape, bool), "all true"
    if dtype.kind in "iu":
        if bound is not None:
            low = 1 if bound > 2 else 0  # 0 pads in most vocabularies
            return generator.integers(low, bound, shape).astype(dtype), f"indices below {bound}, of what they look up"
        if "mask" in name:
            return np.ones(shape, dtype), "ones: a mask"
        if "len" in name or not shape:
            return np.full(shape, size, dtype), f"the length {size}"
        return np.ones(shape, dtype), "ones"
    if dtype.kind == "O" or dtype.kind in "US":
        raise InputError(f"The input '{value.name}' is text; give --inputs.")
    if "mask" in name:
        return np.ones(shape, dtype), "ones: a mask"
    if name in COUNTS:
        return np.full(shape, COUNTS[name], dtype), f"the usual {COUNTS[name]}"
    drawn = (0.5 * generator.standard_normal(shape)).astype(dtype)
    if any(word in name for word in POSITIVE):
        return np.abs(drawn), "sizes of normal ones, of standard deviation 0.5"
    return drawn, "normal, of standard deviation 0.5"


def index_bound(file: OnnxFile, name: str) -> int | None:
    """Return how many entries an integer input may choose of: the smallest table that it is looked up in."""
    bounds = []
    followed, pending = {name}, [name]
    while pending:
        one = pending.pop()
        for node in file.model.graph.node:
            if one not in node.input:
                continue
            if node.op_type in ("Gather", "GatherElements") and len(node.input) > 1 and node.input[1] == one:
                axis = next((a.i for a in node.attribute if a.name == "axis"), 0)
                table = file.constants.get(node.input[0])
                if table is not None:
                    bounds.append(table.shape[axis])
            elif node.op_type in PASSING and node.input[0] == one:
                new = [output for output in node.output if output not in followed]
                followed.update(new)
                pending += new
    return min(bounds, default=None)
