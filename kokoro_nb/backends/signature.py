"""Inputs and outputs of a program: names, shapes, dtypes, and the sentences when they do not fit."""

import inspect
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from kokoro_nb.errors import InputError

BFLOAT16 = "bfloat16"
Arrays = Mapping[str, Any]  # name -> torch.Tensor or numpy.ndarray


@dataclass(frozen=True)
class TensorSpec:
    """Name, shape and dtype (as NumPy calls it: ``float32``, ``int64``, ``bool`` ...) of one input or output.

    Of the axes `open` any size is taken or given; `shape` has the size of the example there.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str
    open: tuple[int, ...] = ()

    def __str__(self) -> str:
        sizes = ["any" if axis in self.open else str(size) for axis, size in enumerate(self.shape)]
        return f"{self.name}: {self.dtype}[{', '.join(sizes)}]"

    @property
    def held(self) -> str:
        """Dtype of the arrays that hold it: NumPy has no bfloat16, whose numbers float32 holds."""
        return "float32" if self.dtype == BFLOAT16 else self.dtype

    def takes(self, shape: tuple[int, ...]) -> bool:
        """Return whether an array of this shape fits.

        >>> TensorSpec("x", (1, 5), "float32", open=(1,)).takes((1, 7))
        True
        """
        return len(shape) == len(self.shape) and all(
            axis in self.open or size == own for axis, (size, own) in enumerate(zip(shape, self.shape, strict=True))
        )


def sizes(shape: Any) -> tuple[int, ...]:
    """Return the shape of a stand-in of PyTorch's as numbers: of an open axis the size of the example.

    Of a size that depends on values it is 0.
    """
    return tuple(size if isinstance(size, int) else int(size.node.hint or 0) for size in shape)


def open_axes(shape: Any) -> tuple[int, ...]:
    """Return the axes of a stand-in of PyTorch's that have no fixed size."""
    return tuple(axis for axis, size in enumerate(shape) if not isinstance(size, int))


def dtype_name(dtype: Any) -> str:
    """Return PyTorch's dtype by the name that NumPy gives it.

    >>> import torch
    >>> dtype_name(torch.int64)
    'int64'
    """
    return str(dtype).removeprefix("torch.")


def spec_of(name: str, value: Any) -> TensorSpec:
    """Return what is declared of a value of an exported program: torch's FakeTensor, its sizes numbers or symbols."""
    return TensorSpec(name, sizes(value.shape), dtype_name(value.dtype), open_axes(value.shape))


def epsilon(dtype: str) -> float:
    """Return the distance from 1 to the next number of a float dtype, bfloat16 included.

    >>> epsilon("bfloat16")
    0.0078125
    """
    return 2.0**-7 if dtype == BFLOAT16 else float(np.finfo(dtype).eps)


def array_of(tensor: Any) -> np.ndarray:
    """Return the numbers of a tensor; bfloat16, which NumPy does not have, in float32, which holds all of them."""
    tensor = tensor.detach().cpu()
    array: np.ndarray = (tensor.float() if dtype_name(tensor.dtype) == BFLOAT16 else tensor).numpy()
    return array


def as_array(name: str, value: Any) -> np.ndarray:
    """Return `value`, a torch tensor or a NumPy array, as a C-contiguous array of the same shape and dtype.

    bfloat16, which NumPy does not have, becomes float32, which holds all of its numbers.

    Raises
    ------
    InputError
        If it is neither, or of a dtype that NumPy does not have.
    """
    if hasattr(value, "detach"):
        try:
            value = array_of(value)
        except TypeError as error:
            raise InputError(f"Input '{name}' is {value.dtype}, unknown to NumPy; convert it first.") from error
    if not isinstance(value, np.ndarray | np.generic) or value.dtype.kind not in "fiub":
        raise InputError(f"Input '{name}' is {_kind(value)}; give a tensor or an array of numbers or truth values.")
    return np.asarray(value, order="C")


def example_inputs(module: Any, inputs: Arrays) -> dict[str, np.ndarray]:
    """Return the example `inputs` of `module` as arrays of their own, in the order of the parameters of its forward.

    They are copies, so that two inputs for which the caller gave the same tensor stay two inputs: `torch.export` merges
    inputs that are one object.

    Raises
    ------
    InputError
        If a name is unknown to the forward, or one that it needs is missing.
    """
    if not callable(getattr(module, "forward", None)):
        raise InputError(f"{_kind(module)} cannot be exported; give a torch.nn.Module.")
    parameters = inspect.signature(module.forward).parameters.values()
    open_ended = any(p.kind in (p.VAR_KEYWORD, p.VAR_POSITIONAL) for p in parameters)
    named = [p for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]
    order = [p.name for p in named]
    for name in inputs:
        if name not in order and not open_ended:
            takes = ", ".join(order) or "nothing"
            raise InputError(f"The module's forward has no parameter '{name}'; it takes {takes}.")
    for parameter in named:
        if parameter.default is parameter.empty and parameter.name not in inputs:
            raise InputError(f"Input '{parameter.name}' is missing; the module's forward takes {', '.join(order)}.")
    ordered = [name for name in order if name in inputs] + [name for name in inputs if name not in order]
    return {name: as_array(name, inputs[name]).copy() for name in ordered}


def call_arguments(module: Any, tensors: Mapping[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return the arguments for the forward of `module`: positional as far as they can be, the others by name."""
    signature = inspect.signature(module.forward)
    if any(p.kind == p.VAR_POSITIONAL for p in signature.parameters.values()):
        return tuple(tensors.values()), {}
    bound = signature.bind_partial(**tensors)
    return bound.args, bound.kwargs


def specs(inputs: Arrays) -> tuple[TensorSpec, ...]:
    """Return the specification of each array or tensor, in order.

    >>> [str(spec) for spec in specs({"ids": np.zeros((1, 5), "int64")})]
    ['ids: int64[1, 5]']
    """
    return tuple(TensorSpec(name, tuple(one.shape), dtype_name(one.dtype)) for name, one in inputs.items())


def as_tensor(array: np.ndarray, dtype: str) -> Any:
    """Return a tensor of its own with the numbers of an array, in the dtype that a `TensorSpec` names."""
    import torch

    tensor = torch.tensor(array)
    return tensor.to(torch.bfloat16) if dtype == BFLOAT16 else tensor


def as_tensors(arrays: Mapping[str, np.ndarray], expected: Sequence[TensorSpec]) -> dict[str, Any]:
    """Return what `checked` returned as tensors, each in the dtype of its specification."""
    return {spec.name: as_tensor(arrays[spec.name], spec.dtype) for spec in expected}


def require_names(inputs: Arrays, names: Sequence[str]) -> None:
    """Refuse inputs of which one is unknown to a program that takes `names`, or missing.

    Raises
    ------
    InputError
        If one is.
    """
    for name in inputs:
        if name not in names:
            raise InputError(f"There is no input '{name}'; the program takes {', '.join(names) or 'nothing'}.")
    for name in names:
        if name not in inputs:
            raise InputError(f"Input '{name}' is missing; the program takes {', '.join(names)}.")


def checked(inputs: Arrays, expected: Sequence[TensorSpec], double: bool = False) -> dict[str, np.ndarray]:
    """Return `inputs` as arrays in the order of `expected`.

    Parameters
    ----------
    double : bool
        Whether a float64 array may stand for a narrower float.

    Raises
    ------
    InputError
        If a name is unknown or missing, or a shape or dtype is not the one that the program was exported for.
    """
    require_names(inputs, [spec.name for spec in expected])
    arrays = {}
    for spec in expected:
        array = as_array(spec.name, inputs[spec.name])
        if not spec.takes(array.shape):
            have = f"has shape {array.shape}, but the program was exported for {spec.shape}"
            raise InputError(f"Input '{spec.name}' {have}; export it again for this shape.")
        given = BFLOAT16 if str(getattr(inputs[spec.name], "dtype", "")) == "torch.bfloat16" else str(array.dtype)
        fits = given in (spec.dtype, spec.held)
        widened = double and array.dtype == np.float64 and np.dtype(spec.held).kind == "f"
        if not fits and not widened:
            have = f"is {given}, but the program was exported for {spec.dtype}"
            raise InputError(f"Input '{spec.name}' {have}; convert it.")
        arrays[spec.name] = array
    return arrays


def named_outputs(value: Any, declared: Sequence[str] | None = None) -> dict[str, Any]:
    """Name what a module returned.

    Parameters
    ----------
    value : tensor, or tuple, list or dict of tensors, nested or not
        What its forward returned.
    declared : sequence of str, optional
        The module's own `output_names`. Without it: ``output``; ``output_0``, ``output_1`` ...; or the dict's keys; of
        what is nested, with the place within: ``output_1_0``.

    Raises
    ------
    InputError
        If it holds anything else, or if the declared names are repeated or of another number.

    Examples
    --------
    >>> list(named_outputs((np.zeros(1), (np.zeros(2), np.zeros(3)))))
    ['output_0', 'output_1_0', 'output_1_1']
    """
    found = dict(_leaves(value, "" if isinstance(value, Mapping) else "output"))
    if declared is not None:
        if isinstance(declared, str) or len(declared) != len(found) or len(set(declared)) != len(found):
            have = f"The module's output_names are {declared!r} but it returns {len(found)} output(s)"
            raise InputError(f"{have}; give one name, each different, per output.")
        found = dict(zip(declared, found.values(), strict=True))
    for name, leaf in found.items():
        if not hasattr(leaf, "dtype") or not hasattr(leaf, "shape"):
            have = f"The module's output '{name}' is {_kind(leaf)}"
            raise InputError(f"{have}; return a tensor, or a tuple or dict of tensors.")
    if not found:
        raise InputError("The module returns nothing; return at least one tensor.")
    return found


def _leaves(value: Any, name: str) -> Iterator[tuple[str, Any]]:
    """Yield what is in nested tuples, lists and dicts, in PyTorch's order, each with its name."""
    if not isinstance(value, Mapping | tuple | list):
        yield name, value
        return
    for key, part in value.items() if isinstance(value, Mapping) else enumerate(value):
        yield from _leaves(part, f"{name}_{key}" if name else str(key))


def _kind(value: Any) -> str:
    name = type(value).__name__
    return f"{'an' if name[0] in 'aeiouAEIOU' else 'a'} {name}"
