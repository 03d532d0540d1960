"""Effect of other patches of the graph: the decoder exported with each, all programs timed in turn."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from kokoro_nb.backends import backend
from kokoro_nb.backends.base import Artifact, quietly
from kokoro_nb.backends.exported import export_program
from kokoro_nb.benchmarks.ceilings import in_turn_with_ceilings
from kokoro_nb.benchmarks.interleaved import DISTANCE, FLOOR, LIMIT, RATIO, TimedProgram, ratio, spread
from kokoro_nb.benchmarks.memory import of_artifact
from kokoro_nb.benchmarks.subjects import BASE, ROUNDS, decoder_inputs, eager_artifact, export_to, frames_of
from kokoro_nb.benchmarks.work import count
from kokoro_nb.errors import InputError
from kokoro_nb.listening.spectrum import log_spectral_distance
from kokoro_nb.models import stages
from kokoro_nb.models.kokoro import Kokoro
from kokoro_nb.models.patches import BFLOAT16, EXPORT_PATCHES, FAST_PATCHES, OTHER_FAST_PATCHES, patched, require_known
from kokoro_nb.traces.parity import compare

CHANGES: tuple[tuple[str, ...], ...] = (
    (),
    ("-two_pass_norm",),
    ("+plane_mean", "+sliced_style"),
    ("+im2col",),
    tuple(f"+{name}" for name in OTHER_FAST_PATCHES),
    tuple(f"+{name}" for name in FAST_PATCHES),
    (f"+{BFLOAT16}",),
)
WITHOUT_BFLOAT16 = {
    "onnxruntime": "ONNX Runtime has no convolution in bfloat16 for processors, and refuses the file.",
    "executorch-xnnpack": "XNNPACK takes no convolution in bfloat16, and ExecuTorch's portable kernels are slow.",
    "tvm-scheduled": "TVM's importer gives a convolution in bfloat16 the dtype float32.",
}
BACKENDS = ("onnxruntime", "executorch-xnnpack", "aot-inductor")
UNCHANGED = "as exported"


def patches_of(change: Sequence[str]) -> tuple[str, ...]:
    """Return the patches of a change: `EXPORT_PATCHES` without those with a minus, and those with a plus."""
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
) -> tuple[tuple[TimedProgram, ...], dict[str, str]]:
    """Time the decoder from `har` with each change on every backend in turn, eager first in each round.

    Parameters
    ----------
    kokoro, length, backends, rounds, seed, limit, with_memory, folder
        See `decoders.measure`.
    changes : sequence of sequences of str
        Each a number of patches with a plus or a minus before the name; the first is empty.

    Returns
    -------
    tuple of TimedProgram, dict
        Backend by backend, each program as a multiple of the same backend's without a change and of the floor of the
        work as exported (see `Work.floor`), with its log-spectral distance from eager (below 1 dB is called
        transparent, Paliwal and Atal, 1993); and program -> why it is not among them.

    Raises
    ------
    InputError
        If the length is no good, a backend or a patch is unknown, or the first change is not empty.
    """
    if not changes or changes[0]:
        raise InputError("Every change is compared with no change; let the first of the changes be empty.")
    for change in changes:
        require_known(patches_of(change))
    inputs = decoder_inputs(kokoro, frames_of(length), seed)
    module, skipped = stages.FromHarStage(kokoro.model.decoder), dict[str, str]()
    made: dict[tuple[str, str], Artifact] = {}
    for change in changes:
        with patched(kokoro.model, patches_of(change)):
            exported = export_program(module, inputs)
        for name in backends:
            if change and (name, "") not in made:
                continue
            lacking = WITHOUT_BFLOAT16.get(name) if f"+{BFLOAT16}" in change else None
            one = lacking or export_to(name, exported, inputs, folder)
            if isinstance(one, str):
                skipped[f"{name} {' '.join(change)}".strip()] = one
            else:
                made[name, " ".join(change)] = one
    base = backend("eager").load(eager_artifact(module, inputs))
    with quietly():
        programs = {key: backend(key[0]).load(one) for key, one in made.items()}
    calls = {" ".join(key): partial(program.run, inputs) for key, program in programs.items()}
    times, ceilings = in_turn_with_ceilings({BASE: partial(base.run, inputs), **calls}, rounds, limit)
    with patched(kokoro.model, EXPORT_PATCHES):
        floor = count(module, inputs).floor(ceilings)
    audio, rows = base.run(inputs)["output"], []
    for name, change in sorted(programs, key=lambda key: backends.index(key[0])):
        artifact, took = made[name, change], times[f"{name} {change}"]
        figures: dict[str, Any] = {RATIO + BASE: ratio(took, times[BASE]).median, FLOOR: spread(took).median / floor}
        figures["size (MB)"] = artifact.size / 1e6
        if with_memory:
            figures["memory run (MB)"] = of_artifact(artifact, inputs).run
        found = programs[name, change].run(inputs)["output"]
        figures[DISTANCE] = log_spectral_distance(audio[0], found[0])
        error = compare(audio, found).of_peak
        compared = spread(took), ratio(took, times[f"{name} "]), error, UNCHANGED
        rows.append(TimedProgram(f"{name} {change or UNCHANGED}", length, *compared, figures))
    return tuple(rows), skipped
