"""Weights of a Core ML package stored as int8; what it takes and gives, and what it computes in, stays as it is."""

from pathlib import Path
from typing import Any

from kokoro_nb.backends.base import quietly
from kokoro_nb.storage import atomic


def quantise(package: Path) -> None:
    """Store the larger weights of a ``.mlpackage`` as int8, in place: a scale for each channel, and no zero point.

    Weights of less than 2048 elements stay as they are: among them those of the inverse STFT, and with them its level.
    """
    with quietly():
        import coremltools as ct
        import coremltools.optimize.coreml as compression

        how = compression.OpLinearQuantizerConfig(mode="linear_symmetric", dtype="int8")
        model: Any = ct.models.MLModel(str(package), skip_model_load=True)
        smaller = compression.linear_quantize_weights(model, compression.OptimizationConfig(global_config=how))
        with atomic(package) as draft:
            smaller.save(str(draft))
