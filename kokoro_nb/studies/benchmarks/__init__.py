"""How fast each export is, how far from what the machine can do, and where its time goes: what notebook 19 shows."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from kokoro_nb.benchmarks import decoders
from kokoro_nb.benchmarks import profiles as profilers
from kokoro_nb.benchmarks import text_to_audio as speech
from kokoro_nb.benchmarks.decoders import DecoderTimes, frames_of
from kokoro_nb.benchmarks.interleaved import AGAIN, TimedProgram, this_machine
from kokoro_nb.benchmarks.profiles import Profile
from kokoro_nb.benchmarks.text_to_audio import TextToAudioTimes
from kokoro_nb.benchmarks.work import CONV
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
    convolutions : int
        Operations of all convolutions by their layers' shapes.
    """

    length: float
    times: DecoderTimes
    convolutions: int

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

    @property
    def miscounted(self) -> float:
        """Relative difference of the operations counted in the program's convolutions from `convolutions`."""
        counted = next(row["flops"] for row in self.times.decoder.work.families() if row["family"] == CONV)
        return float(counted / self.convolutions - 1)


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
        DecoderBenchmark(
            length,
            decoders.measure(kokoro, length, backends, rounds, seed),
            convolution_flops(kokoro.model.decoder, frames_of(length)),
        )
        for length in seconds
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


def convolution_flops(decoder: Any, frames: int) -> int:
    """Return the operations of all convolutions of the decoder from `har`, those of the inverse STFT left out.

    A convolution multiplies and adds each of its weights once for every position that comes out, a transposed one for
    every position that goes in.

    Parameters
    ----------
    decoder : kokoro.istftnet.Decoder
        Of any width.
    frames : int
        Length, 40 to the second.
    """
    generator = decoder.generator
    done = frames * (2 * 3 + _weights(decoder.asr_res[0]))  # of F0 and N three taps each
    for block in (decoder.encode, *decoder.decode):
        upsampled = block.upsample_type != "none"
        done += frames * _weights(block.pool) if upsampled else 0
        within = [block.conv1, block.conv2, *([block.conv1x1] if block.learned_sc else [])]
        done += frames * (1 + upsampled) * sum(map(_weights, within))
    before = 2 * frames
    for place, after in enumerate((20 * frames, 120 * frames + 1)):
        done += before * _weights(generator.ups[place]) + after * _weights(generator.noise_convs[place])
        first = place * generator.num_kernels
        for block in (generator.noise_res[place], *generator.resblocks[first : first + generator.num_kernels]):
            done += after * sum(map(_weights, (*block.convs1, *block.convs2)))
        before = after
    done += before * _weights(generator.conv_post)
    done += before * generator.post_n_fft  # the sum of the squared windows, by which the inverse STFT divides
    return 2 * done


def _weights(layer: Any) -> int:
    """Return the number of a convolution's weights, whether they are normalised or not."""
    return getattr(layer, "weight_v", layer.weight).numel()
