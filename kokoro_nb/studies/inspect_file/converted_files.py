"""Two files as people make them: the voice's source in float16, its decoder in int8, by ONNX Runtime's own tools.

Neither tool is given exceptions: the source is converted whole; every convolution and product is quantised, with ranges
taken from the very utterance that is spoken.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from kokoro_nb.models import stages
from kokoro_nb.models.case import Case
from kokoro_nb.models.kokoro import Kokoro
from kokoro_nb.models.patches import EXPORT_PATCHES, chosen_patches, patched
from kokoro_nb.studies import onnx_converters


@dataclass(frozen=True)
class ConvertedFile:
    """A file that a converter made.

    Attributes
    ----------
    path : pathlib.Path
        The file.
    original : pathlib.Path
        The float32 file that it was made from.
    inputs : dict of str to numpy.ndarray
        What goes into both in the utterance.
    """

    path: Path
    original: Path
    inputs: Mapping[str, np.ndarray]


def converted_files(kokoro: Kokoro, case: Case, frames: int, folder: str | Path) -> tuple[ConvertedFile, ConvertedFile]:
    """Export the decoder as two files, and convert one to float16 and the other one to int8.

    Parameters
    ----------
    kokoro : Kokoro
        The voice.
    case : Case
        What it says.
    frames : int
        How much of that the decoder is given, 40 to the second; the source, whose phase runs on, is given all of it.
    folder : path
        Where the files are written.

    Returns
    -------
    ConvertedFile
        The harmonic source in float16: pitch and noise to a signal.
    ConvertedFile
        The decoder from `har` on in int8: features and the signal's transform to audio.

    Raises
    ------
    InputError
        If the utterance has no such frames.
    """
    decoder, inputs, whole = kokoro.model.decoder, case.decoder_inputs(frames), case.decoder_inputs()
    pitch = {name: whole[name] for name in ("f0", "harmonic_noise")}
    place = Path(folder)
    place.mkdir(parents=True, exist_ok=True)
    with patched(kokoro.model, chosen_patches(EXPORT_PATCHES)):
        har = stages.from_har_inputs(decoder, inputs)
        source = onnx_converters.dynamo_onnx(stages.ExcitationStage(decoder), pitch, place / "source.onnx")
        rest = onnx_converters.dynamo_onnx(stages.FromHarStage(decoder), har, place / "decoder.onnx")
    from onnxruntime.quantization import QuantType

    half, eight = place / "source_float16.onnx", place / "decoder_int8.onnx"
    onnx_converters.to_float16(source, half)
    onnx_converters.to_int8(rest, eight, _arrays(har), activation_type=QuantType.QInt8, per_channel=True)
    return ConvertedFile(half, source, _arrays(pitch)), ConvertedFile(eight, rest, _arrays(har))


def _arrays(tensors: Mapping[str, Any]) -> dict[str, np.ndarray]:
    return {name: tensor.numpy() for name, tensor in tensors.items()}
