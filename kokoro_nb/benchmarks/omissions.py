"""Fewer operations: what can be left out of the decoder, or computed once."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

import numpy as np
from torch import Tensor, nn

from kokoro_nb.backends import backend
from kokoro_nb.backends.base import Failure, quietly
from kokoro_nb.backends.exported import Exported, export_program
from kokoro_nb.backends.signature import Arrays
from kokoro_nb.benchmarks.imitated_precision import audio_of
from kokoro_nb.benchmarks.interleaved import LIMIT, TimedProgram, in_turn, ratio, spread
from kokoro_nb.benchmarks.subjects import ROUNDS, at_har, export_each, frames_of, whole_inputs
from kokoro_nb.models import stages
from kokoro_nb.models.kokoro import Kokoro
from kokoro_nb.models.patches import EXPORT_PATCHES, patched
from kokoro_nb.traces.parity import compare

WHOLE, FROM_HAR, ONE_VOICE = "source and decoder", "from har", "from har, for one voice"


class OneVoiceStage(nn.Module):
    """`stages.FromHarStage` for one style: what follows from it alone, gamma and beta, can be computed beforehand."""

    def __init__(self, decoder: nn.Module, s: Tensor):
        super().__init__()
        self.stage = stages.FromHarStage(decoder)
        self.register_buffer("s", s)

    def forward(self, asr: Tensor, f0: Tensor, n: Tensor, har: Tensor) -> Tensor:
        """Return the audio, (1, 600 * frames); see `stages.FromHarStage`."""
        return self.stage(asr, f0, n, self.s, har)


def measure(
    kokoro: Kokoro,
    length: float,
    backends: Sequence[str],
    rounds: int = ROUNDS,
    seed: int = 0,
    limit: float = LIMIT,
    folder: str | Path | None = None,
) -> tuple[tuple[TimedProgram, ...], dict[str, str]]:
    """Time the decoder with more and with less in it, all programs in turn.

    `WHOLE` has the harmonic source in it; `FROM_HAR` leaves it and its STFT to the caller; `ONE_VOICE` has gamma and
    beta of every norm as numbers.

    Parameters
    ----------
    kokoro, length, backends, rounds, seed, limit, folder
        See `decoders.measure`.

    Returns
    -------
    tuple of TimedProgram, dict
        Backend by backend, each as a multiple of `WHOLE` on the same backend; and program -> why it is not among them.
        The error is from eager from `har`, and None where the source is in the program (atan2 makes another waveform of
        any rounding).

    Raises
    ------
    InputError
        If a length is no good, or a backend is unknown.
    """
    frames, runtimes = frames_of(length), {name: backend(name) for name in backends}
    modules = _modules(kokoro, frames, seed)
    made, skipped = export_each(_exported(kokoro, modules), backends, folder)
    with quietly():
        programs = {key: runtimes[key[0]].load(one) for key, one in made.items()}
    calls: dict[tuple[str, str], Callable[[], Mapping[str, np.ndarray]]] = {
        key: partial(program.run, modules[key[1]][1]) for key, program in programs.items()
    }
    times = in_turn({" ".join(key): call for key, call in calls.items()}, rounds, limit) if calls else {}
    exact, rows = audio_of(*modules[FROM_HAR]), []
    for (name, program), call in calls.items():
        if (name, WHOLE) not in calls:
            skipped[f"{name} {program}"] = f"There is no '{WHOLE}' to compare it with."
            continue
        took, audio = times[f"{name} {program}"], call()["output"]
        compared = spread(took), ratio(took, times[f"{name} {WHOLE}"])
        error = None if program == WHOLE else compare(exact, audio).of_peak
        rows.append(TimedProgram(f"{name} {program}", length, *compared, error, WHOLE))
    return tuple(rows), skipped


def _modules(kokoro: Kokoro, frames: int, seed: int) -> dict[str, tuple[nn.Module, dict[str, Tensor]]]:
    """Return the three programs of the whole speech, each with its inputs."""
    decoder, whole = kokoro.model.decoder, whole_inputs(kokoro, frames, seed)
    given = at_har(kokoro, whole)
    rest = {name: each for name, each in given.items() if name != "s"}
    return {
        WHOLE: (stages.DecoderStage(decoder), whole),
        FROM_HAR: (stages.FromHarStage(decoder), given),
        ONE_VOICE: (OneVoiceStage(decoder, given["s"]), rest),
    }


def _exported(
    kokoro: Kokoro, modules: Mapping[str, tuple[nn.Module, Arrays]]
) -> Iterator[tuple[str, Exported | Failure, Arrays]]:
    for program, (module, inputs) in modules.items():
        with patched(kokoro.model, EXPORT_PATCHES):
            exported = export_program(module, inputs)
        yield program, exported, inputs
