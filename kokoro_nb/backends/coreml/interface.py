"""Which feature of a Core ML file is which of our inputs and outputs: they stand in the same order."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from kokoro_nb.backends.base import Artifact
from kokoro_nb.backends.exported import Exported
from kokoro_nb.errors import InputError


@dataclass(frozen=True)
class Interface:
    """The features of a saved model.

    Attributes
    ----------
    inputs : dict
        Our name -> name of the feature, and its dtype: Core ML knows float32, float16 and int32.
    outputs : dict
        Our name -> name of the feature.
    """

    inputs: Mapping[str, tuple[str, str]]
    outputs: Mapping[str, str]

    def to_file(self, arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Return the checked inputs as Core ML takes them: cast without a word, and a scalar with one axis."""
        with np.errstate(over="ignore"):
            return {
                feature: arrays[name].astype(dtype).reshape(arrays[name].shape or (1,))
                for name, (feature, dtype) in self.inputs.items()
            }

    def from_file(self, results: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Return what the file gave, as it gave it, under our names."""
        return {name: np.array(results[feature]) for name, feature in self.outputs.items()}


def interface(spec: Any, own: Artifact | Exported) -> Interface:
    """Read the interface of a model from its specification, ``coremltools.utils.load_spec(path)``.

    Raises
    ------
    InputError
        If it has not as many inputs and outputs as it was made of.
    """
    inputs, outputs = spec.description.input, spec.description.output
    if (len(inputs), len(outputs)) != (len(own.inputs), len(own.outputs)):
        raise InputError(
            f"The module has {len(own.inputs)} inputs and {len(own.outputs)} outputs, and the file that coremltools "
            f"makes of it {len(inputs)} and {len(outputs)}."
        )
    return Interface(
        {one.name: (feature.name, _dtype(feature)) for one, feature in zip(own.inputs, inputs, strict=True)},
        {name: feature.name for name, feature in zip(own.outputs, outputs, strict=True)},
    )


def _dtype(feature: Any) -> str:
    array = feature.type.multiArrayType
    return str(array.ArrayDataType.Name(array.dataType)).lower()
