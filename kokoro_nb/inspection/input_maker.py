"""Inputs for a file that came without any: made from what its graph says of them, and tried on the runtime."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from kokoro_nb.backends.signature import TensorSpec, as_array
from kokoro_nb.errors import InputError
from kokoro_nb.inspection.onnx_file import OnnxFile
from kokoro_nb.inspection.onnx_model import run_session, session_of
from kokoro_nb.locate.rounding_bound import is_float

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
    names = [value.name for value in file.inputs]
    wrong = [f"There is no input '{name}'" for name in sorted(set(given) - set(names))]
    wrong += [f"The input '{name}' is missing" for name in names if name not in given]
    if wrong:
        raise InputError(f"{wrong[0]}; the file has {', '.join(names) or 'none'}.")
    arrays = {}
    for value in file.inputs:
        array, dtype = as_array(value.name, given[value.name]), _dtype(value)
        if array.dtype.kind != dtype.kind and not (is_float(array.dtype) and is_float(dtype)):
            raise InputError(f"The input '{value.name}' has the type {array.dtype}; the file wants {dtype}.")
        dims = value.type.tensor_type.shape.dim
        fits = len(dims) == array.ndim and all(a.dim_value in (0, n) for a, n in zip(dims, array.shape, strict=True))
        if value.type.tensor_type.HasField("shape") and not fits:
            wanted = ", ".join(dim.dim_param or str(dim.dim_value or "?") for dim in dims)
            raise InputError(f"The input '{value.name}' has the shape {array.shape}; the file wants ({wanted}).")
        arrays[value.name] = array.astype(dtype, copy=False)
    return MadeInputs(arrays, dict.fromkeys(names, "given"))


def _dtype(value: Any) -> np.dtype[Any]:
    from onnx import helper

    return helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type)


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
            return made
        except InputError as error:
            last = last or str(error)
    raise InputError(f"No inputs that were made for {file.path} run on it; give --inputs. {last}")


def _draft(file: OnnxFile, size: int, bounds: Mapping[str, int | None], seed: int) -> MadeInputs:
    sizes: dict[str, int] = {}
    specs, opened = [], {}
    for value in file.inputs:
        if value.type.WhichOneof("value") != "tensor_type":
            raise InputError(f"The input '{value.name}' is no tensor; give --inputs.")
        shape, open_axes, dims = [], [], value.type.tensor_type.shape.dim
        for axis, dim in enumerate(dims):
            if dim.HasField("dim_value") and dim.dim_value > 0:
                shape.append(dim.dim_value)
                continue
            name = dim.dim_param or f"{value.name}.{axis}"
            leading = axis == 0 and len(dims) > 1
            shape.append(sizes.setdefault(name, 1 if leading or "batch" in name.lower() else size))
            open_axes.append(f"{name} = {sizes[name]}")
        specs.append(TensorSpec(value.name, tuple(shape), str(_dtype(value))))
        opened[value.name] = f" ({', '.join(open_axes)})" if open_axes else ""
    made = drawn_inputs(specs, seed, bounds, size)
    return MadeInputs(made.arrays, {name: words + opened[name] for name, words in made.how.items()})


def drawn_inputs(
    specs: Sequence[TensorSpec], seed: int, bounds: Mapping[str, int | None], size: int = SIZES[0]
) -> MadeInputs:
    """Draw inputs of these shapes; `bounds` are of those that are indices, and `size` is what a length is."""
    generator = np.random.default_rng(seed)
    made = {spec.name: _values(spec, bounds.get(spec.name), size, generator) for spec in specs}
    how = {name: f"{words}, shape {array.shape}" for name, (array, words) in made.items()}
    return MadeInputs({name: array for name, (array, _) in made.items()}, how)


def _values(spec: TensorSpec, bound: int | None, size: int, generator: np.random.Generator) -> tuple[np.ndarray, str]:
    """Return values of one input, and how they were made."""
    name, shape, dtype = spec.name.lower(), spec.shape, np.dtype(spec.dtype)
    if dtype.kind in "OUS":
        raise InputError(f"The input '{spec.name}' is text; give --inputs.")
    if dtype.kind == "b":
        return np.ones(shape, bool), "all true"
    if dtype.kind in "iu" and bound is not None:
        low = 1 if bound > 2 else 0  # 0 pads in most vocabularies
        return generator.integers(low, bound, shape).astype(dtype), f"indices below {bound}, the size of their table"
    if "mask" in name:
        return np.ones(shape, dtype), "ones: a mask"
    if dtype.kind in "iu":
        if "len" in name or not shape:
            return np.full(shape, size, dtype), f"the length {size}"
        return np.ones(shape, dtype), "ones"
    if name in COUNTS:
        return np.full(shape, COUNTS[name], dtype), f"the usual {COUNTS[name]}"
    drawn = (0.5 * generator.standard_normal(shape)).astype(dtype)
    if any(word in name for word in POSITIVE):
        return np.abs(drawn), "sizes of normal ones, of standard deviation 0.5"
    return drawn, "normal, of standard deviation 0.5"


def index_bound(file: OnnxFile, name: str) -> int | None:
    """Return how many entries an integer input may choose of: the smallest table that it is looked up in."""
    bounds, followed = [], {name}
    for node in file.model.graph.node:  # each behind what it reads
        if node.op_type in ("Gather", "GatherElements") and len(node.input) > 1 and node.input[1] in followed:
            axis = next((a.i for a in node.attribute if a.name == "axis"), 0)
            table = file.constants.get(node.input[0])
            bounds += [] if table is None else [table.shape[axis]]
        elif node.op_type in PASSING and node.input[0] in followed:
            followed |= set(node.output)
    return min(bounds, default=None)


def varied(inputs: Mapping[str, np.ndarray], seed: int) -> dict[str, np.ndarray]:
    """Return other inputs of the same shapes: floats drawn at the level of those given, integers in another order.

    So are masks. Integers that are all the same have no other order: every second one is 0 then; of such a mask every
    fourth is changed.
    """
    draw = np.random.default_rng(seed)
    found = dict(inputs)
    for name, array in ((name, one) for name, one in inputs.items() if one.size > 1):
        if array.dtype.kind == "f":
            noise = draw.standard_normal(array.shape)
            found[name] = (float(array.mean()) + (float(array.std()) or 1.0) * noise).astype(array.dtype)
        elif array.dtype.kind in "iu" or (array.dtype.kind == "b" and 0 < array.mean() < 1):
            flat = array.reshape(-1) * (np.arange(array.size) % 2 if array.min() == array.max() else 1)
            found[name] = draw.permuted(flat).reshape(array.shape).astype(array.dtype)
        elif array.dtype.kind == "b":
            found[name] = array ^ (np.arange(array.size) % 4 == seed).reshape(array.shape)
    return found


def fixed(shape: Iterable[Any]) -> tuple[int, ...]:
    """Return a shape with a number for each axis that the file leaves open."""
    return tuple(int(size) if isinstance(size, int | np.integer) else SIZES[0] for size in shape)
