"""09: what padding does to the valid part of decoder and text, and what exact padding costs on a runtime."""

from copy import deepcopy
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import torch
from kokoro.model import KModel
from torch import Tensor

from kokoro_nb.errors import InputError
from kokoro_nb.models import noise, stages
from kokoro_nb.models.architecture import SAMPLE_RATE, SAMPLES_PER_FRAME
from kokoro_nb.models.case import Case
from kokoro_nb.models.padding import widened
from kokoro_nb.models.patches import active
from kokoro_nb.models.speaking import DurationStage
from kokoro_nb.studies.decoder import decoder_part
from kokoro_nb.traces.statistics import of_peak
from kokoro_nb.traces.trace import Trace


@dataclass(frozen=True)
class PaddedRun:
    """The valid audio of one decoder without padding, and in a buffer.

    Between the source's spectrum and what is made of its phase there is atan2, which turns any rounding, even that of
    another order of summation, into another waveform. So both sides of it are kept by themselves. Those of the
    spectrum are the real and the imaginary parts, so that a phase counts by how much there is of it.

    Attributes
    ----------
    kind : str
        Of the source's noise.
    frames, bucket : int
        How many frames are valid, and how many the buffer holds.
    plain, naive, exact : numpy.ndarray, shape (600 * frames,), float32, full scale 1
        Without padding; in the buffer, zeros behind the valid frames; in the buffer, with the length as an input.
    source, source64, source_exact : numpy.ndarray, shape (1, 11, 120 * frames + 1, 2)
        The source's spectrum without padding, in float32 and in float64, and in the buffer with the length as an input.
    from_har, from_har_exact : numpy.ndarray, shape (600 * frames,), float32
        The audio of the decoder from `har` on, given the `har` without padding: without padding, and in the buffer with
        the length as an input.
    """

    kind: str
    frames: int
    bucket: int
    plain: np.ndarray
    naive: np.ndarray
    exact: np.ndarray
    source: np.ndarray
    source64: np.ndarray
    source_exact: np.ndarray
    from_har: np.ndarray
    from_har_exact: np.ndarray


def padded_run(model: KModel, case: Case, frames: int, bucket: int, kind: str, seed: int = 0) -> PaddedRun:
    """Run the whole decoder on the first `frames` of an utterance, without padding and in a buffer.

    The source's noise goes on through the padding, as it does in a port that draws it for the whole buffer.

    Parameters
    ----------
    model : kokoro.model.KModel
        Patched, with ``explicit_noise`` or ``signal_noise``.
    case : Case
        The utterance.
    frames, bucket : int
        How many are valid, and for how many there is room.
    kind : str
        Of noise: see `noise.draw`; with ``signal_noise`` the name alone.
    seed : int
        Seed of the Gaussian noise.

    Raises
    ------
    InputError
        If the kind is unknown, the utterance has no such frames, or the buffer is smaller.
    """
    drawn = noise.draw(bucket, seed, "zero" if "signal_noise" in active() else cast(noise.NoiseKind, kind)).harmonic
    inputs = {**case.decoder_inputs(frames), "harmonic_noise": drawn[:, : SAMPLES_PER_FRAME * frames]}
    wide = {**widened(inputs, bucket), "harmonic_noise": drawn}
    length = torch.tensor([frames])
    source = stages.SourceStage(model.decoder)
    whole, from_har = stages.DecoderStage(model.decoder), stages.FromHarStage(model.decoder)
    with torch.no_grad():
        bare = stages.from_har_inputs(model.decoder, inputs)
        precise = deepcopy(source).double()(inputs["f0"].double(), inputs["harmonic_noise"].double())
        har = source(wide["f0"], drawn, length)[..., : bare["har"].shape[-1]]
        computed = [whole(**inputs), whole(**wide), whole(**wide, length=length)]
        computed += [from_har(**bare), from_har(**widened(bare, bucket), length=length)]
    plain, naive, exact, *others = (audio[0, : SAMPLES_PER_FRAME * frames].numpy() for audio in computed)
    spectra = map(_complex, (bare["har"], precise, har))
    return PaddedRun(kind, frames, bucket, plain, naive, exact, *spectra, *others)


def _complex(har: Tensor) -> np.ndarray:
    """Return the real and the imaginary parts of a source's spectrum: (1, 11, positions, 2)."""
    magnitude, phase = har.chunk(2, dim=1)
    return torch.view_as_real(torch.polar(magnitude, phase)).numpy()


def leaks(plain: Trace, wide: Trace, limit: float = 1e-5) -> list[dict[str, Any]]:
    """Return a row for each operator whose valid part changes though nothing that it is computed from does.

    Parameters
    ----------
    plain, wide : Trace
        All operators without padding, and in a buffer.
    limit : float
        Change of the valid part, as a share of its peak, from which it counts.

    Raises
    ------
    InputError
        If the buffer is not larger.
    """
    expected = plain.values
    if all(one.shape == expected[name].shape for name, one in wide.values.items() if name in expected):
        raise InputError("The buffer holds no padding; it must be larger than what is valid.")
    found = {tap.name: _change(expected.get(tap.name), tap.value, limit) for tap in wide.taps}
    changes = {name: change for name, change in found.items() if not change[0] <= limit}
    return [
        {"operator": tap.name, "change (of peak)": changes[tap.name][0]}
        | {"changed (of the valid elements)": changes[tap.name][1]}
        for tap in wide.taps
        if tap.name in changes and not changes.keys() & set(tap.operator.inputs)
    ]


def variances(plain: Trace, wide: Trace) -> list[dict[str, Any]]:
    """Return a row for each norm: the variance of what it reads in the buffer over the one without, of its channels.

    A channel that is constant without padding is left out.
    """
    rows = []
    for tap in plain.taps:
        if not tap.name.endswith(".norm:mean"):
            continue
        before, after = (run.values[tap.operator.inputs[0]][0].astype(np.float64).var(-1) for run in (plain, wide))
        low, middle, high = np.quantile(after[before != 0] / before[before != 0], (0.05, 0.5, 0.95))
        rows.append({"norm": tap.module_path, "5 % of channels": low, "median": middle, "95 %": high})
    return sorted(rows, key=lambda row: row["5 % of channels"])


def _change(expected: np.ndarray | None, value: np.ndarray | None, limit: float) -> tuple[float, float]:
    """Return the largest change of the leading part, of its peak, and the share that changes; 0 where there is none."""
    if expected is None or value is None or value.dtype != expected.dtype or value.ndim != expected.ndim:
        return 0.0, 0.0
    if not expected.size or any(size < valid for size, valid in zip(value.shape, expected.shape, strict=True)):
        return 0.0, 0.0
    part = value[tuple(slice(size) for size in expected.shape)]
    a, b = (np.atleast_1d(array).astype(np.float64) for array in (expected, part))
    with np.errstate(invalid="ignore"):
        difference = np.abs(b - a)
    difference[a == b] = 0  # an infinity that is the same on both sides
    peak = float(np.max(np.abs(a[np.isfinite(a)]), initial=0))  # the infinities of a mask are no scale
    return of_peak(float(difference.max()), peak), float((~(difference <= limit * peak)).mean())
