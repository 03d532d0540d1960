"""What numbers of fewer bits bring, and what they cost: the decoder in int8, int4 and bfloat16 beside float32."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from kokoro_nb.benchmarks.decoders import BASE, ROUNDS, decoder_inputs, frames_of
from kokoro_nb.benchmarks.integers import Borne
from kokoro_nb.benchmarks.interleaved import LIMIT, Spread, in_turn, ratio, spread
from kokoro_nb.benchmarks.reduction import BORNE, CALIBRATION, PRECISIONS, Reduction, borne_by, require_known
from kokoro_nb.listening.spectrum import log_spectral_distance
from kokoro_nb.models import stages
from kokoro_nb.models.kokoro import Kokoro
from kokoro_nb.traces.parity import compare


@dataclass(frozen=True)
class Reduced:
    """The decoder in one precision.

    Attributes
    ----------
    program : str
        Of `reduction.PRECISIONS`.
    seconds : Spread
        Of a call: median and quartiles.
    ratio : Spread
        To eager in float32, in the same round.
    error : float
        Largest difference from eager in float32, of its peak.
    distance : float
        Log-spectral distance from it, dB; below 1 dB is called transparent (Paliwal and Atal, 1993).
    layers : int or None
        How many convolutions compute in int8, of static int8.
    """

    program: str
    seconds: Spread
    ratio: Spread
    error: float
    distance: float
    layers: int | None = None

    def as_dict(self) -> dict[str, Any]:
        """Return the row of a table, with units in its keys."""
        told = {"program": self.program, "run (s)": self.seconds.median, "x eager": self.ratio.median}
        told |= {"from": self.ratio.low, "to": self.ratio.high, "rounds": self.ratio.rounds}
        told |= {"error (of peak)": self.error, "log-spectral distance (dB)": self.distance}
        return told if self.layers is None else {**told, "layers in int8": self.layers}


def measure(
    kokoro: Kokoro,
    length: float,
    precisions: Sequence[str] = PRECISIONS,
    rounds: int = ROUNDS,
    seed: int = 0,
    limit: float = LIMIT,
    folder: str | Path | None = None,
) -> tuple[tuple[Reduced, ...], tuple[Borne, ...]]:
    """Time the decoder from `har` in each precision, eager in float32 first in each round.

    Parameters
    ----------
    kokoro, length, rounds, seed, limit, folder
        See `decoders.measure`.
    precisions : sequence of str
        Of `reduction.PRECISIONS`.

    Returns
    -------
    tuple of Reduced, tuple of Borne
        In the order of `precisions`; and what int8 makes of each convolution, where one of them asks for it.

    Raises
    ------
    InputError
        If the length is no good, a precision is unknown, or ONNX Runtime cannot be used.
    """
    require_known(precisions)
    inputs = decoder_inputs(kokoro, frames_of(length), seed)
    other = decoder_inputs(kokoro, frames_of(length), seed, CALIBRATION)
    bearers, borne = borne_by(kokoro, other) if BORNE in precisions else ((), ())
    with TemporaryDirectory() as room:
        reduction = Reduction(kokoro, stages.FromHarStage, inputs, other, bearers, Path(room), folder)
        made = {name: reduction.call(name) for name in dict.fromkeys([BASE, *precisions])}
        calls = {name: partial(call, inputs) for name, (call, _) in made.items()}
        audio = {name: call() for name, call in calls.items()}
        times = in_turn(calls, rounds, limit)
    rows = []
    for name in precisions:
        told = compare(audio[BASE], audio[name]).of_peak, log_spectral_distance(audio[BASE][0], audio[name][0])
        rows.append(Reduced(name, spread(times[name]), ratio(times[name], times[BASE]), *told, made[name][1]))
    return tuple(rows), borne
