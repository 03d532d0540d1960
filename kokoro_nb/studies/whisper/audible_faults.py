"""One utterance with the faults that exports have, for a listener and for measures to notice.

Each fault is made where an export makes it, on the eager model, so that nothing else differs from the package's audio.
"""

import copy
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from kokoro.model import KModel
from torch.utils._python_dispatch import TorchDispatchMode

from kokoro_nb.listening.comparison import FINITE
from kokoro_nb.models import noise, stages
from kokoro_nb.models.architecture import SAMPLE_RATE, SAMPLES_PER_FRAME
from kokoro_nb.models.case import Case, decode
from kokoro_nb.models.patches import EXPORT_PATCHES, patched
from kokoro_nb.models.static_buffers import widened

GAIN = 4.0  # of full scale, at the peak: what is written as 16-bit integers is cut at 1
LOST = 0.25  # s
MEASURES = ("RMS ratio", "largest band-energy ratio", "SNR", "log-spectral distance", "mel-cepstral distance")
MARGIN = 2.0  # times the worst healthy version; of an SNR, which is in dB already, the same factor in amplitude


def naive_padding(model: KModel, case: Case) -> np.ndarray:
    """Decode in a buffer of twice the length, zeros behind the utterance, and cut the audio to its length."""
    wide = widened(case.decoder_inputs(), 2 * case.frames)
    return _stage(model, wide)[: SAMPLES_PER_FRAME * case.frames]


def half_amplitude(model: KModel, case: Case) -> np.ndarray:
    """Return what an inverse STFT gives that forgets the mirrored half of the spectrum: half the amplitude."""
    return 0.5 * decode(model, case)


def other_inverse(model: KModel, case: Case) -> np.ndarray:
    """Decode with CustomSTFT and its own inverse, whose window is not that of the package."""
    return decode(model, case, ("custom_stft",))


def other_noise(model: KModel, case: Case) -> np.ndarray:
    """Decode on another draw of the source's noise, which is no fault and changes every sample."""
    return decode(model, case, drawn=noise.draw(case.frames, case.seed + 1, "gaussian"))


def signal_noise(model: KModel, case: Case) -> np.ndarray:
    """Decode with a function of the harmonic signal in the place of noise, as an older port did."""
    return decode(model, case, ("signal_noise",))


def float16(model: KModel, case: Case) -> np.ndarray:
    """Decode with each operator's result rounded to float16, as a runtime computes that has nothing else.

    The phase of the source grows beyond what float16 resolves, and some results beyond 65504.
    """
    with _Float16():
        return _stage(model, case.decoder_inputs())


def clipped(model: KModel, case: Case) -> np.ndarray:
    """Write the audio four times too loud as 16-bit integers."""
    audio = decode(model, case)
    return np.clip(audio * (GAIN / np.abs(audio).max()), -1, 1).astype(np.float32)


def swapped_stages(model: KModel, case: Case) -> np.ndarray:
    """Decode with two blocks of the trunk in the wrong order; their shapes are the same, so nothing complains."""
    other = copy.deepcopy(model)
    blocks = other.decoder.decode
    blocks[0], blocks[1] = blocks[1], blocks[0]
    return decode(other, case)


def lost_chunk(model: KModel, case: Case) -> np.ndarray:
    """Return the audio without a quarter of a second in its middle, as a stream that drops a chunk plays it."""
    audio = decode(model, case)
    begin, count = len(audio) // 2, round(LOST * SAMPLE_RATE)
    return np.concatenate([audio[:begin], np.zeros(count, np.float32), audio[begin + count :]])[: len(audio)]


FAULTS: dict[str, Callable[[KModel, Case], np.ndarray]] = {
    "naive padding": naive_padding,
    "half amplitude": half_amplitude,
    "inverse of CustomSTFT": other_inverse,
    "signal for noise": signal_noise,
    "float16 throughout": float16,
    "clipped WAV": clipped,
    "swapped blocks": swapped_stages,
    "lost chunk": lost_chunk,
    "another draw of noise": other_noise,
}


def _stage(model: KModel, inputs: dict[str, torch.Tensor]) -> np.ndarray:
    with torch.no_grad(), patched(model, EXPORT_PATCHES):
        return stages.DecoderStage(model.decoder)(**inputs).reshape(-1).numpy()


class _Float16(TorchDispatchMode):
    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return _rounded(func(*args, **(kwargs or {})))


def _rounded(value: Any) -> Any:
    if isinstance(value, tuple | list):
        return type(value)(map(_rounded, value))
    return value.half().float() if getattr(value, "dtype", None) == torch.float32 else value


def noticed_by(
    healthy: Sequence[Mapping[str, float]], faulty: Sequence[Mapping[str, float]], margin: float = MARGIN
) -> tuple[str, ...]:
    """Return the measures that notice a fault: in each utterance they are further off than in any healthy one.

    Parameters
    ----------
    healthy : sequence of dict
        What `compare_audio` gives for versions that nothing is wrong with, of any of the utterances.
    faulty : sequence of dict
        The same for the version in question, one for each utterance.
    margin : float
        How many times further off than the worst healthy one.

    Returns
    -------
    tuple of str
        Names out of `MEASURES`; the finite fraction alone where an audio is not finite, for then nothing else is
        defined.
    """
    if any(one[FINITE] < 100 for one in faulty):
        return (FINITE,)
    return tuple(name for name in MEASURES if all(_beyond(name, healthy, one, margin) for one in faulty))


def _beyond(name: str, healthy: Sequence[Mapping[str, float]], one: Mapping[str, float], margin: float) -> bool:
    if name == "SNR":
        return one[name] < np.min([sound[name] for sound in healthy]) - 20 * math.log10(margin)
    return abs(one[name]) > margin * np.max([abs(sound[name]) for sound in healthy])
