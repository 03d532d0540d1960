"""21 inspects files alone: what converters made of the bundled voice, or a file of one's own."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import torch
from torch import Tensor

from kokoro_nb.backends.base import quietly
from kokoro_nb.errors import InputError
from kokoro_nb.inspection.onnx_file import read_onnx
from kokoro_nb.inspection.onnx_model import run_session, session_of
from kokoro_nb.inspection.whole_file import signal_to_noise
from kokoro_nb.models import stages
from kokoro_nb.models.architecture import SAMPLE_RATE
from kokoro_nb.models.case import Case
from kokoro_nb.models.kokoro import Kokoro
from kokoro_nb.models.patches import EXPORT_PATCHES, chosen_patches, patched

PRODUCTS = ("Conv", "ConvTranspose", "MatMul", "Gemm")  # what is quantised


def dynamo_onnx(module: Any, inputs: Mapping[str, Any], path: Path) -> Path:
    """Write a module by torch's exporter of today, in float32."""
    with quietly():
        program = torch.onnx.export(module, kwargs=dict(inputs), dynamo=True, opset_version=18)
        assert program is not None
        program.save(str(path))
    return path


def to_float16(plain: Path, path: Path) -> Path:
    """Convert a file by `convert_float_to_float16`, which cuts constants at 65504; inputs and outputs stay float32."""
    with quietly():
        from onnxruntime.transformers.float16 import convert_float_to_float16

        onnx.save(convert_float_to_float16(onnx.load(plain), keep_io_types=True), path)
    return path


def bare(plain: Path) -> onnx.ModelProto:
    """Return a model without the exporter's own shapes, on which the quantisers stop where nodes were folded."""
    model = onnx.load(plain)
    del model.graph.value_info[:]
    return model


def to_int8(plain: Path, path: Path, inputs: Mapping[str, np.ndarray], **options: Any) -> Path:
    """Quantise products and convolutions of a file by `quantize_static`, with pairs of QuantizeLinear and its inverse.

    Parameters
    ----------
    plain, path : Path
        In float32, and where the other is written.
    inputs : mapping of str to numpy.ndarray
        What it is calibrated on: the ranges are those that activations have there.
    options
        Further arguments of `quantize_static`.
    """
    left = [dict(inputs)]
    with quietly():
        from onnxruntime.quantization import CalibrationDataReader, quantize_static

        class Once(CalibrationDataReader):
            def get_next(self) -> Any:
                return left.pop() if left else None

        quantize_static(bare(plain), path, Once(), **{"op_types_to_quantize": [*PRODUCTS], **options})
    return path


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
        The inputs of both in the utterance.
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
        source = dynamo_onnx(stages.ExcitationStep(decoder.generator), pitch, place / "source.onnx")
        rest = dynamo_onnx(stages.FromHarStage(decoder), har, place / "decoder.onnx")
    from onnxruntime.quantization import QuantType

    half, eight = place / "source_float16.onnx", place / "decoder_int8.onnx"
    to_float16(source, half)
    to_int8(rest, eight, _arrays(har), activation_type=QuantType.QInt8, per_channel=True)
    return ConvertedFile(half, source, _arrays(pitch)), ConvertedFile(eight, rest, _arrays(har))


def _arrays(tensors: Mapping[str, Any]) -> dict[str, np.ndarray]:
    return {name: tensor.numpy() for name, tensor in tensors.items()}


REFERENCE = "PyTorch"


@dataclass(frozen=True, eq=False)
class HeardFiles:
    """What files give in one utterance.

    Attributes
    ----------
    versions : dict of str to numpy.ndarray, shape (samples,), float32
        ``PyTorch`` and each file that the runtime runs -> audio, full scale 1.
    levels : dict of str to float
        Of each file: the level of what PyTorch gives over what the file's output differs by, dB; NaN if that is not
        finite, minus infinity if the runtime stops.
    sizes : dict of str to float
        Of each file, MB.
    stopped : dict of str to str
        What the runtime says of a file at which it stops.
    sample_rate : int, Hz
    """

    versions: Mapping[str, np.ndarray]
    levels: Mapping[str, float]
    sizes: Mapping[str, float]
    stopped: Mapping[str, str]
    sample_rate: int = SAMPLE_RATE

    @property
    def rows(self) -> list[dict[str, Any]]:
        """A row for each file."""
        return [
            {"file": name, "size (MB)": self.sizes[name], "over its difference to PyTorch (dB)": level}
            | {"the runtime": self.stopped.get(name, "runs it")}
            for name, level in self.levels.items()
        ]


def heard_source(kokoro: Kokoro, case: Case, files: Mapping[str, Path]) -> HeardFiles:
    """Have each file make the source's signal of the whole utterance, and PyTorch the audio of it.

    Parameters
    ----------
    kokoro, case
        As for `converted_files`.
    files : mapping of str to path
        Files of the source by a name.
    """
    decoder, inputs = kokoro.model.decoder, case.decoder_inputs()
    given = {name: inputs[name] for name in ("f0", "harmonic_noise")}
    rest = {name: inputs[name] for name in ("asr", "f0", "n", "s")}

    def spoken(signal: np.ndarray) -> np.ndarray:
        magnitude, phase = decoder.generator.stft.transform(torch.from_numpy(signal))
        audio = stages.FromHarStage(decoder)(**rest, har=torch.cat([magnitude, phase], dim=1))
        return audio.reshape(-1).numpy()

    with torch.no_grad(), patched(kokoro.model, chosen_patches(EXPORT_PATCHES)):
        right = stages.ExcitationStep(decoder.generator)(**given)
        return _heard(right, files, given, spoken)


def heard_decoder(kokoro: Kokoro, case: Case, frames: int, files: Mapping[str, Path]) -> HeardFiles:
    """Have each file make the audio out of the same `har`; parameters as for `converted_files` and `heard_source`."""
    decoder = kokoro.model.decoder
    with torch.no_grad(), patched(kokoro.model, chosen_patches(EXPORT_PATCHES)):
        inputs = stages.from_har_inputs(decoder, case.decoder_inputs(frames))
        right = stages.FromHarStage(decoder)(**inputs)
    return _heard(right, files, inputs, np.ravel)


def _heard(
    right: Tensor, files: Mapping[str, Path], inputs: Mapping[str, Tensor], spoken: Callable[[np.ndarray], np.ndarray]
) -> HeardFiles:
    """Run files as they ship, with all optimisations, and have `spoken` make audio of what they give."""
    signals, stopped = {REFERENCE: right.numpy()}, {}
    for name, path in files.items():
        try:
            (output,) = run_session(session_of(read_onnx(path).model, optimised=True), _arrays(inputs)).values()
            signals[name] = np.asarray(output)
        except InputError as error:
            stopped[name] = str(error)
    versions = {name: spoken(signal) for name, signal in signals.items()}
    expected = signals.pop(REFERENCE)
    found = {name: signal_to_noise(signal, expected) for name, signal in signals.items()}
    levels = {name: float("nan") if level is None else level for name, level in found.items()}
    levels |= dict.fromkeys(stopped, float("-inf"))
    return HeardFiles(versions, levels, {name: path.stat().st_size / 1e6 for name, path in files.items()}, stopped)


def added(*levels: float) -> float:
    """Return the level of a signal over several noises together, dB, of the level over each: powers add up.

    >>> round(added(20.0, 20.0), 2), added(30.0, float("inf"))
    (16.99, 30.0)
    """
    return -10 * float(np.log10(np.sum([10 ** (-level / 10) for level in levels])))
