"""Time and error of fewer bits: the decoder in int8, int4 and bfloat16 beside float32."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from kokoro_nb.benchmarks.imitated_precision import LayerEffect
from kokoro_nb.benchmarks.interleaved import DISTANCE, LIMIT, TimedProgram, in_turn, ratio, spread
from kokoro_nb.benchmarks.precision_programs import (
    CALIBRATION,
    PRECISIONS,
    TOLERANT,
    PrecisionPrograms,
    require_precisions,
    tolerant_of,
)
from kokoro_nb.benchmarks.subjects import BASE, ROUNDS, decoder_inputs, frames_of
from kokoro_nb.listening.spectrum import log_spectral_distance
from kokoro_nb.models import stages
from kokoro_nb.models.kokoro import Kokoro
from kokoro_nb.traces.parity import compare

LAYERS = "layers in int8"


def measure(
    kokoro: Kokoro,
    length: float,
    precisions: Sequence[str] = PRECISIONS,
    rounds: int = ROUNDS,
    seed: int = 0,
    limit: float = LIMIT,
    folder: str | Path | None = None,
) -> tuple[tuple[TimedProgram, ...], tuple[LayerEffect, ...]]:
    """Time the decoder from `har` in each precision, eager in float32 first in each round.

    Parameters
    ----------
    kokoro, length, rounds, seed, limit, folder
        See `decoders.measure`.
    precisions : sequence of str
        Of `precision_programs.PRECISIONS`.

    Returns
    -------
    tuple of TimedProgram, tuple of LayerEffect
        In the order of `precisions`, each also with its log-spectral distance from eager in float32 (below 1 dB is
        called transparent, Paliwal and Atal, 1993) and, of static int8, its convolutions; and the effect of int8 on
        each convolution, where `TOLERANT` is among them.

    Raises
    ------
    InputError
        If the length is no good, a precision is unknown, or ONNX Runtime cannot be used.
    """
    require_precisions(precisions)
    inputs = decoder_inputs(kokoro, frames_of(length), seed)
    other = decoder_inputs(kokoro, frames_of(length), seed, CALIBRATION)
    tolerant, effects = tolerant_of(kokoro, other) if TOLERANT in precisions else ((), ())
    with TemporaryDirectory() as room:
        made = PrecisionPrograms(kokoro, stages.FromHarStage, inputs, other, tolerant, Path(room), folder)
        programs = {name: made.call(name) for name in dict.fromkeys([BASE, *precisions])}
        calls = {name: partial(call, inputs) for name, (call, _) in programs.items()}
        audio = {name: call() for name, call in calls.items()}
        times = in_turn(calls, rounds, limit)
    rows = []
    for name in precisions:
        error, layers = compare(audio[BASE], audio[name]).of_peak, programs[name][1]
        figures = {DISTANCE: log_spectral_distance(audio[BASE][0], audio[name][0])}
        figures |= {} if layers is None else {LAYERS: layers}
        compared = spread(times[name]), ratio(times[name], times[BASE]), error, BASE
        rows.append(TimedProgram(name, length, *compared, figures))
    return tuple(rows), effects
