"""The names of our inputs and outputs in a Core ML file, and the casts between its dtypes and ours.

Core ML has float32, float16 and int32 at the interface of a model and nothing else, gives a scalar one axis, and does
not allow an output the name of an input. So the file carries, in its own metadata, what was declared.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from kokoro_nb.backends.signature import TensorSpec
from kokoro_nb.errors import InputError

KEY = "kokoro_nb"
INT32 = np.iinfo(np.int32)
# What Core ML is given for each dtype that it carries: not for float64, nor for integers of 8 and 16 bits, in which a
# forward overflows at other places than in int32.
INTERFACE = {"float32": "float32", "float16": "float16", "int64": "int32", "int32": "int32", "bool": "float32"}


@dataclass(frozen=True)
class Port:
    """One input or output of a saved model.

    Attributes
    ----------
    name : str
        Our name.
    feature : str
        Core ML's name.
    shape : tuple of int
        Shape as declared; Core ML gives a scalar the shape (1,).
    dtype : str
        Dtype as declared, as NumPy calls it.
    """

    name: str
    feature: str
    shape: tuple[int, ...]
    dtype: str

    def to_file(self, array: np.ndarray) -> np.ndarray:
        """Return `array`, of the declared dtype and shape, as Core ML takes it: float32, float16 or int32.

        Raises
        ------
        InputError
            If it holds an integer that int32 does not.
        """
        if array.dtype.kind == "i" and array.size and not INT32.min <= array.min() <= array.max() <= INT32.max:
            raise InputError(
                f"Input '{self.name}' holds integers between {array.min()} and {array.max()}, and Core ML takes int32 "
                "alone; keep them within 32 bits."
            )
        return array.astype(INTERFACE[self.dtype]).reshape(self.shape or (1,))

    def from_file(self, array: np.ndarray) -> np.ndarray:
        """Return what Core ML gave for this output in the declared dtype and shape, as an array of its own."""
        return np.array(array).astype(self.dtype).reshape(self.shape)


@dataclass(frozen=True)
class Interface:
    """Inputs and outputs of a saved model, in order."""

    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]

    def to_file(self, arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Return the checked inputs under Core ML's names and in its dtypes."""
        return {port.feature: port.to_file(arrays[port.name]) for port in self.inputs}

    def from_file(self, results: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Return Core ML's results under our names, in our dtypes."""
        return {port.name: port.from_file(results[port.feature]) for port in self.outputs}


def require_lossless(specs: Sequence[TensorSpec], what: str) -> None:
    """Refuse a dtype that Core ML cannot carry without loss, naming `what` it is of: ``input`` or ``output``.

    Raises
    ------
    InputError
        If there is one.
    """
    for spec in specs:
        if spec.dtype not in INTERFACE:
            raise InputError(
                f"The {what} '{spec.name}' is {spec.dtype}, which is not exported to Core ML; use "
                f"{', '.join(INTERFACE)}."
            )


def feature_names(names: Sequence[str], taken: Sequence[str]) -> list[str]:
    """Return a name for each output that no input has and that Core ML takes.

    >>> feature_names(["state", "audio", "x.y", "x_y"], taken=["x", "state"])
    ['state_out', 'audio', 'x_y', 'x_y_out']
    """
    used, features = set(taken), []
    for name in names:
        feature = "".join(letter if letter.isascii() and letter.isalnum() else "_" for letter in name) or "output"
        feature = f"output_{feature}" if feature[0].isdigit() else feature
        while feature in used:
            feature += "_out"
        used.add(feature)
        features.append(feature)
    return features


def record(model: Any, inputs: Sequence[TensorSpec], outputs: Sequence[TensorSpec]) -> None:
    """Write the declared inputs and outputs into the metadata of a ``coremltools`` model, in its own order."""
    description = model.get_spec().description
    sides = {"inputs": (inputs, description.input), "outputs": (outputs, description.output)}
    ports = {
        side: [asdict(Port(s.name, f.name, s.shape, s.dtype)) for s, f in zip(declared, features, strict=True)]
        for side, (declared, features) in sides.items()
    }
    model.user_defined_metadata[KEY] = json.dumps(ports)


def interface(spec: Any) -> Interface:
    """Read the interface of a saved model from its specification, ``coremltools.utils.load_spec(path)``.

    Raises
    ------
    InputError
        If the model was not written by this package.
    """
    written = spec.description.metadata.userDefined.get(KEY)
    if not written:
        raise InputError("This Core ML model does not say what it was exported from; export it with this package.")
    sides = {
        side: tuple(Port(**{**port, "shape": tuple(port["shape"])}) for port in ports)
        for side, ports in json.loads(written).items()
    }
    return Interface(**sides)
