"""The decoder without padding, in a longer buffer, and in one whose length it is given, for each kind of noise."""

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass
from functools import cached_property
from typing import Any, cast, get_args

import numpy as np
import torch
from kokoro.model import KModel
from torch import Tensor

from kokoro_nb.errors import InputError
from kokoro_nb.models import noise, stages
from kokoro_nb.models.architecture import SAMPLES_PER_FRAME
from kokoro_nb.models.case import Case
from kokoro_nb.models.patches import EXPORT_PATCHES, patched
from kokoro_nb.models.static_buffers import widened
from kokoro_nb.traces.statistics import Parity, compare

SIGNAL = "signal"  # sin(137 x) cos(211 x) of the harmonic signal x, which an older port took for noise
KINDS = (*get_args(noise.NoiseKind), SIGNAL)


@dataclass(frozen=True)
class PaddedRun:
    """The valid audio of one decoder without padding, and in a buffer.

    Between the source's spectrum and what is made of its phase there is atan2, which turns any rounding, even that of
    another order of summation, into another waveform. So both sides of it are compared by themselves.

    Attributes
    ----------
    kind : str
        Of the source's noise: see `KINDS`.
    frames, bucket : int
        How many frames are valid, and how many the buffer holds.
    plain, naive, exact : numpy.ndarray, shape (600 * frames,), float32, full scale 1
        Without padding; in the buffer, zeros behind the valid frames; in the buffer, with the length as an input.
    source : Parity
        The source's spectrum in the buffer, with the length as an input, against the one without padding; as complex
        numbers, so that a phase counts by how much there is of it.
    floor : Parity
        That spectrum without padding, in float32 against float64: it is made of phases of thousands of radians.
    from_har : Parity
        The audio of the decoder from `har` on, likewise, both given the `har` without padding.
    """

    kind: str
    frames: int
    bucket: int
    plain: np.ndarray
    naive: np.ndarray
    exact: np.ndarray
    source: Parity
    floor: Parity
    from_har: Parity

    @cached_property
    def leaking(self) -> Parity:
        """The naive run against the one without padding."""
        return compare(self.plain, self.naive)

    @cached_property
    def whole(self) -> Parity:
        """The whole decoder with the length as an input against the one without padding."""
        return compare(self.plain, self.exact)

    @property
    def audio(self) -> dict[str, np.ndarray]:
        """The three versions of the valid audio by name."""
        return {"without padding": self.plain, "naive": self.naive, "with its length": self.exact}

    def as_dict(self) -> dict[str, Any]:
        """Return the row of a table, with units in its keys."""
        row: dict[str, Any] = {"noise": self.kind, "valid (frames)": self.frames, "bucket (frames)": self.bucket}
        for name, audio, parity in (("naive", self.naive, self.leaking), ("exact", self.exact, self.whole)):
            row[f"{name}: amplitude ratio"] = float(np.max(np.abs(audio)) / parity.peak)
            row[f"{name}: correlation"] = parity.correlation
        errors = {
            "exact": self.whole,
            "exact source": self.source,
            "its floor": self.floor,
            "exact from har": self.from_har,
        }
        return row | {f"{part}: error (of peak)": parity.of_peak for part, parity in errors.items()}


@dataclass(frozen=True)
class PaddedRuns:
    """The runs with every kind of noise in every buffer, the buffers of one kind beside each other."""

    runs: tuple[PaddedRun, ...]

    def rows(self) -> list[dict[str, Any]]:
        """Return the rows of a table."""
        return [run.as_dict() for run in self.runs]

    def run(self, kind: str, bucket: int) -> PaddedRun:
        """Return one run."""
        return next(run for run in self.runs if (run.kind, run.bucket) == (kind, bucket))


def decoder_in_buffers(
    model: KModel, case: Case, frames: int, buckets: Sequence[int], seed: int = 0, kinds: Sequence[str] = KINDS
) -> PaddedRuns:
    """Run the whole decoder on the first `frames` of an utterance, without padding and in a buffer of each size.

    The source's noise goes on through the padding, as it does in a port that draws it for the whole buffer.

    Parameters
    ----------
    model : kokoro.model.KModel
        Without patches; it runs with those of an export, but its phase is interpolated, as in a port.
    case : Case
        The utterance.
    frames : int
        How many are valid.
    buckets : sequence of int
        Sizes of the buffers in frames.
    seed : int
        Seed of the Gaussian noise.
    kinds : sequence of str
        Kinds of noise, see `KINDS`.

    Raises
    ------
    InputError
        If a kind is unknown, the utterance has no such frames, or a buffer is smaller.
    """
    return PaddedRuns(tuple(_run(model, case, frames, size, kind, seed) for kind in kinds for size in buckets))


def _run(model: KModel, case: Case, frames: int, bucket: int, kind: str, seed: int) -> PaddedRun:
    if kind not in KINDS:
        raise InputError(f"There is no noise '{kind}'; use one of {', '.join(KINDS)}.")
    drawn = noise.draw(bucket, seed, "zero" if kind == SIGNAL else cast(noise.NoiseKind, kind)).harmonic
    patches = [name for name in EXPORT_PATCHES if name not in ("explicit_noise", "ramped_phase")]
    inputs = {**case.decoder_inputs(frames), "harmonic_noise": drawn[:, : SAMPLES_PER_FRAME * frames]}
    wide = {**widened(inputs, bucket), "harmonic_noise": drawn}
    length, decoder = torch.tensor([frames]), model.decoder
    with torch.no_grad(), patched(model, [*patches, "signal_noise" if kind == SIGNAL else "explicit_noise"]):
        bare = stages.from_har_inputs(decoder, inputs)
        precise = deepcopy(stages.SourceStage(decoder)).double()(
            inputs["f0"].double(), inputs["harmonic_noise"].double()
        )
        har = stages.SourceStage(decoder)(wide["f0"], drawn, length)[..., : bare["har"].shape[-1]]
        computed = [
            stages.DecoderStage(decoder)(**inputs),
            stages.DecoderStage(decoder)(**wide),
            stages.DecoderStage(decoder)(**wide, length=length),
            stages.FromHarStage(decoder)(**bare),
            stages.FromHarStage(decoder)(**widened(bare, bucket), length=length),
        ]
    plain, naive, exact, alone, padded = (audio[0, : SAMPLES_PER_FRAME * frames].numpy() for audio in computed)
    floor, source = compare(_complex(precise), _complex(bare["har"])), compare(_complex(bare["har"]), _complex(har))
    return PaddedRun(kind, frames, bucket, plain, naive, exact, source, floor, compare(alone, padded))


def _complex(har: Tensor) -> Tensor:
    """Return the real and the imaginary parts of a source's spectrum: (1, 11, positions, 2)."""
    magnitude, phase = har.chunk(2, dim=1)
    return torch.view_as_real(torch.polar(magnitude, phase))
