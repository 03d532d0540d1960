"""What each change of the graph brings: the decoder exported with other patches, all programs timed in turn."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kokoro_nb.backends import backend
from kokoro_nb.backends.base import Artifact, quietly
from kokoro_nb.backends.exported import export_program
from kokoro_nb.benchmarks.decoders import BASE, ROUNDS, decoder_inputs, eager_artifact, export_to, frames_of
from kokoro_nb.benchmarks.interleaved import LIMIT, Spread, in_turn, ratio, spread
from kokoro_nb.benchmarks.memory import Memory, of_artifact
from kokoro_nb.errors import InputError
from kokoro_nb.models import stages
from kokoro_nb.models.kokoro import Kokoro
from kokoro_nb.models.patches import EXPORT_PATCHES, FAST_PATCHES, patched
from kokoro_nb.traces.parity import compare

CHANGES: tuple[tuple[str, ...], ...] = (
    (),
    ("-two_pass_norm",),
    ("+plane_mean", "+sliced_style"),
    ("+im2col",),
    tuple(f"+{name}" for name in FAST_PATCHES),
)
BACKENDS = ("onnxruntime", "executorch-xnnpack", "aot-inductor")


@dataclass(frozen=True)
class Changed:
    """One runtime's decoder with one change.

    Attributes
    ----------
    backend : str
        Key of `BACKENDS`.
    change : str
        Patches that `EXPORT_PATCHES` has more, or less; empty for none.
    seconds : Spread
        Of a call: median and quartiles.
    ratio, gain : Spread
        To eager, and to the same runtime without the change, in the same round.
    error : float
        Largest difference from eager without patches, of its peak.
    size : int
        Bytes of the artefact.
    memory : Memory or None
        In a process of its own, where it was measured.
    """

    backend: str
    change: str
    seconds: Spread
    ratio: Spread
    gain: Spread
    error: float
    size: int
    memory: Memory | None = None

    def as_dict(self) -> dict[str, Any]:
        """Return the row of a table, with units in its keys."""
        told: dict[str, Any] = {"backend": self.backend, "change": self.change or "none"}
        told |= {"run (s)": self.seconds.median, "x eager": self.ratio.median, "x no change": self.gain.median}
        told |= {"from": self.gain.low, "to": self.gain.high, "rounds": self.gain.rounds, "error (of peak)": self.error}
        told["size (MB)"] = self.size / 1e6
        return told if self.memory is None else {**told, "memory run (MB)": self.memory.as_dict()["run"]}


def patches_of(change: Sequence[str]) -> tuple[str, ...]:
    """Return the patches that a change leaves: `EXPORT_PATCHES` without those with a minus, and those with a plus."""
    less = {name[1:] for name in change if name.startswith("-")}
    more = (name[1:] for name in change if name.startswith("+"))
    return (*(name for name in EXPORT_PATCHES if name not in less), *more)


def measure(
    kokoro: Kokoro,
    length: float,
    backends: Sequence[str] = BACKENDS,
    rounds: int = ROUNDS,
    seed: int = 0,
    limit: float = LIMIT,
    changes: Sequence[Sequence[str]] = CHANGES,
    with_memory: bool = True,
    folder: str | Path | None = None,
) -> tuple[tuple[Changed, ...], dict[str, str]]:
    """Time the decoder from `har` with each change on every backend in turn, eager first in each round.

    Parameters
    ----------
    kokoro, length, backends, rounds, seed, limit, with_memory, folder
        See `decoders.measure`.
    changes : sequence of sequences of str
        Each a number of patches with a plus or a minus before the name; the first of none, which the others are held
        against.

    Returns
    -------
    tuple of Changed, dict
        Backend by backend; and program -> why it is not among them.

    Raises
    ------
    InputError
        If the length is no good, a backend or a patch is unknown, or the first change is one.
    """
    if not changes or changes[0]:
        raise InputError("A change is held against none; let the first of the changes be empty.")
    inputs = decoder_inputs(kokoro, frames_of(length), seed)
    module, skipped = stages.FromHarStage(kokoro.model.decoder), dict[str, str]()
    made: dict[tuple[str, str], Artifact] = {}
    for change in changes:
        with patched(kokoro.model, patches_of(change)):
            exported = export_program(module, inputs)
        for name in backends:
            if change and (name, "") not in made:
                continue
            one = export_to(name, exported, inputs, folder)
            if isinstance(one, str):
                skipped[f"{name} {' '.join(change)}".strip()] = one
            else:
                made[name, " ".join(change)] = one
    base = backend("eager").load(eager_artifact(module, inputs))
    with quietly():
        programs = {key: backend(key[0]).load(one) for key, one in made.items()}
    calls = {f"{name} {change}": lambda each=each: each.run(inputs) for (name, change), each in programs.items()}
    times = in_turn({BASE: lambda: base.run(inputs), **calls}, rounds, limit)
    audio, rows = base.run(inputs)["output"], []
    for name, change in sorted(programs, key=lambda key: backends.index(key[0])):
        took, plain = times[f"{name} {change}"], times[f"{name} "]
        error = compare(audio, programs[name, change].run(inputs)["output"]).of_peak
        grown = of_artifact(made[name, change], inputs) if with_memory else None
        told = (spread(took), ratio(took, times[BASE]), ratio(took, plain), error, made[name, change].size, grown)
        rows.append(Changed(name, change, *told))
    return tuple(rows), skipped
