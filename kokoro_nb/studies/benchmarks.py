"""How fast each export is, how far from what the machine can do, and where its time goes: what notebook 19 shows."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from kokoro_nb.benchmarks import decoders
from kokoro_nb.benchmarks import profiles as profilers
from kokoro_nb.benchmarks import text_to_audio as speech
from kokoro_nb.benchmarks.decoders import DecoderTimes
from kokoro_nb.benchmarks.interleaved import AGAIN, TimedProgram, this_machine
from kokoro_nb.benchmarks.profiles import Profile
from kokoro_nb.benchmarks.text_to_audio import TextToAudioTimes
from kokoro_nb.delivery.pipeline import TwoStages
from kokoro_nb.models.kokoro import Kokoro
from kokoro_nb.studies.two_stage_npu.agreement import INPUTS_LIMIT, TextAgreement, against_model


@dataclass(frozen=True)
class DecoderBenchmark:
    """The decoder from `har` on every backend at one length, and the independent count of its convolutions.

    Attributes
    ----------
    length : float
        Seconds of audio.
    times : DecoderTimes
    """

    length: float
    times: DecoderTimes

    @property
    def rows(self) -> tuple[TimedProgram, ...]:
        """What was timed."""
        return self.times.rows

    @property
    def skipped(self) -> Mapping[str, str]:
        """Backend -> why it is not among them."""
        return self.times.decoder.skipped

    @property
    def table(self) -> list[dict[str, object]]:
        """Rows of time, memory and error."""
        return [row.as_dict() for row in self.rows]

    @property
    def control(self) -> float:
        """How far 1 is from the bounds of the ratio of eager to itself, 0 within them; NaN on a busy machine."""
        again = next(row.ratio for row in self.rows if row.program == AGAIN)
        return float(np.max([again.low - 1, 1 - again.high, 0.0]))

    @property
    def gain(self) -> float | None:
        """Times that TVM is faster with its loops reordered; None where both were not timed, or on a busy machine."""
        if self.times.busy:
            return None
        ratios = {row.program: row.ratio.median for row in self.rows}
        return ratios["tvm"] / ratios["tvm-scheduled"] if {"tvm", "tvm-scheduled"} <= set(ratios) else None


@dataclass(frozen=True)
class Profiles:
    """Where each program spends its time: program -> its profile, or why there is none."""

    known: Mapping[str, Profile]
    skipped: Mapping[str, str]

    @property
    def table(self) -> list[dict[str, object]]:
        """Rows of each family's share of the time."""
        return [{"program": name, **each.as_dict()} for name, each in self.known.items()]


@dataclass(frozen=True)
class SpokenBenchmark:
    """Text to audio on every backend, and what was timed compared with the model on the same noise.

    Attributes
    ----------
    times : TextToAudioTimes
    agreement : mapping
        Backend -> what it says against the package's own modules: see `two_stage_npu.agreement`.
    """

    times: TextToAudioTimes
    agreement: Mapping[str, TextAgreement]

    @property
    def rows(self) -> tuple[TimedProgram, ...]:
        """What was timed, eager first."""
        return self.times.rows

    @property
    def skipped(self) -> Mapping[str, str]:
        """Backend -> why it is not among them."""
        return self.times.skipped

    @property
    def far(self) -> dict[str, tuple[tuple[str, float, float, str], ...]]:
        """Backend -> statement, figure, limit and unit of each check of what it says; NaN where durations differ.

        Without the spectrum where that says nothing: see `TextAgreement.determined`.
        """
        found: dict[str, tuple[tuple[str, float, float, str], ...]] = {}
        for name, one in self.agreement.items():
            given = ("The decoder is given what the package's own modules predict", one.inputs, INPUTS_LIMIT, "of peak")
            heard = ("On one noise the audio has the model's spectrum", one.distance, one.distance_limit, "dB")
            found[name] = (given, heard) if one.determined else (given,)
        return found


def decoder_times(
    kokoro: Kokoro, seconds: Sequence[float], backends: Sequence[str], rounds: int, seed: int
) -> tuple[DecoderBenchmark, ...]:
    """Time the decoder from `har` at each length on every backend in turn: see `benchmarks.decoders.measure`."""
    return tuple(
        DecoderBenchmark(length, decoders.measure(kokoro, length, backends, rounds, seed)) for length in seconds
    )


def profiles(measured: DecoderBenchmark) -> Profiles:
    """Profile each program that was timed."""
    decoder = measured.times.decoder
    return Profiles(*profilers.profiles(decoder.programs, decoder.inputs))


def text_to_audio(
    kokoro: Kokoro, room: float, backends: Sequence[str], rounds: int, seed: int, tokens: int
) -> SpokenBenchmark:
    """Time text to audio by two exported stages on every backend in turn: see `benchmarks.text_to_audio.measure`."""
    times = speech.measure(kokoro, room, backends, rounds, seed, tokens=tokens)
    agreement = {
        name: next(against_model(TwoStages(folder), kokoro, [times.text], [""], seed))
        for name, folder in times.folders.items()
    }
    return SpokenBenchmark(times, agreement)
