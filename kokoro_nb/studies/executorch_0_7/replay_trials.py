"""One trial: a module exported once, loaded afresh for each sequence of calls, and each call judged."""

import inspect
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from kokoro.istftnet import Decoder
from torch import Tensor, nn

from kokoro_nb.backends import backend
from kokoro_nb.backends.base import Artifact, Backend, Failure, Program, RungError, on_rung, quietly
from kokoro_nb.backends.exported import Exported, export_program
from kokoro_nb.backends.ladder import difference
from kokoro_nb.backends.signature import as_array
from kokoro_nb.backends.snapshot import snapshot
from kokoro_nb.models import frame_cuts, stages
from kokoro_nb.models.kokoro import Kokoro
from kokoro_nb.models.patches import patched
from kokoro_nb.studies.executorch_0_7.arena import norm_memory
from kokoro_nb.studies.executorch_0_7.norm_kernel import AccumulatingNorm
from kokoro_nb.studies.executorch_0_7.replay_plan import (
    AFTER,
    ALONE,
    BLOCKS,
    DECODER,
    INVERSE,
    NORM,
    SEQUENCES,
    ReplayTrial,
)
from kokoro_nb.studies.executorch_0_7.replay_record import ReplayCall, ReplayOutcome
from kokoro_nb.traces.parity import compare

CHANNELS, LENGTH, CALLS = 8, 64, 5  # of the norm alone
Output = np.ndarray


@dataclass(frozen=True)
class ReplayBench:
    """What trials are made of.

    Attributes
    ----------
    inputs : mapping
        Inputs of `stages.DecoderStage`, and ``har``, by name.
    folder : Path or None
        For artefacts; ``artefacts`` in the cache if None.
    """

    kokoro: Kokoro
    inputs: Mapping[str, Any]
    folder: Path | None

    def exported(self, trial: ReplayTrial) -> tuple[Exported | Failure, dict[str, Any]]:
        """Return the module of `trial`, patched and exported, and its inputs by name."""
        with patched(self.kokoro.model, trial.patches), quietly():
            module, inputs = self._module(trial.cut)
            made = export_program(module, inputs)
            if isinstance(made, Failure):
                return made, inputs
            # PyTorch 2.8 leaves the tensors that it traced with in the weights that weight_norm computes
            return replace(made, module=snapshot(module)), inputs

    def _module(self, cut: str) -> tuple[Any, dict[str, Any]]:
        if cut == ALONE:
            return norm_alone()
        decoder = self.kokoro.model.decoder
        if cut == DECODER:
            return stages.FromHarStage(decoder), {name: self.inputs[name] for name in ("asr", "f0", "n", "s", "har")}
        if cut == INVERSE:
            return stages.parts(decoder, {name: value for name, value in self.inputs.items() if name != "har"})[cut]
        blocks, inputs = Blocks(decoder), {name: self.inputs[name] for name in ("asr", "f0", "n", "s")}
        return (blocks, inputs) if cut == BLOCKS else (decoder.get_submodule(cut), given(blocks, cut, inputs))


class Blocks(nn.Module):
    """The decoder up to its generator: one block that encodes and four that decode, ten instance norms."""

    def __init__(self, decoder: Decoder):
        super().__init__()
        self.decoder = decoder

    def forward(self, asr: Tensor, f0: Tensor, n: Tensor, s: Tensor) -> Tensor:
        """Return what the generator is given, (1, channels, 2 * frames)."""
        return frame_cuts.trunk(self.decoder, asr, f0, n, s)


def given(blocks: Blocks, path: str, inputs: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return what the module at `path` in the decoder is given at its first call in the blocks, by name."""
    module, seen = blocks.decoder.get_submodule(path), list[tuple[Tensor, ...]]()
    hook = module.register_forward_pre_hook(lambda _module, args: seen.append(args))
    try:
        with torch.no_grad():
            blocks(**inputs)
    finally:
        hook.remove()
    names = list(inspect.signature(module.forward).parameters)[: len(seen[0])]
    return dict(zip(names, seen[0], strict=True))


def norm_alone() -> tuple[Any, dict[str, Any]]:
    """Return `InstanceNorm1d` of 8 channels, and an input for it with a mean of 1 and a deviation of 0.5."""
    x = 1 + 0.5 * torch.randn(1, CHANNELS, LENGTH, generator=torch.Generator().manual_seed(0))
    return nn.InstanceNorm1d(CHANNELS, affine=True).eval(), {"input": x}


def execute(bench: ReplayBench, trial: ReplayTrial) -> tuple[ReplayOutcome, Output | None]:
    """Export the module of `trial` and call it in every sequence; return what came of it, and the first output."""
    exported, inputs = bench.exported(trial)
    if isinstance(exported, Failure):
        return ReplayOutcome(trial, float("nan"), _line(exported), (), 0, 0), None
    double, single = (_once(name, exported, inputs) for name in ("eager-float64", "eager"))
    healthy = compare(double, single).finite
    runtime = backend(trial.backend)
    made = runtime.export(exported, inputs, bench.folder)
    if isinstance(made, Failure):
        return ReplayOutcome(trial, healthy, _line(made), (), 0, 0), None
    assert made.path is not None
    memory = norm_memory(made.path)
    calls: list[ReplayCall] = []
    first, error = None, ""
    try:
        for after, value in SEQUENCES.items():
            answers = _answers(runtime, made, inputs, value)
            first = answers[0] if first is None else first
            calls += [_judged(after, number, double, answers[0], given) for number, given in enumerate(answers)]
    except RungError as fallen:
        error = _line(fallen.failure(trial.backend))
    return ReplayOutcome(trial, healthy, error, tuple(calls), memory.norms, memory.used_before), first


def predicted(bench: ReplayBench) -> tuple[dict[str, float], ...]:
    """Call the norm alone five times; compare each answer with eager and with `norm_kernel.AccumulatingNorm`."""
    exported, inputs = bench.exported(NORM)
    runtime = backend(NORM.backend)
    assert not isinstance(exported, Failure)
    double = _once("eager-float64", exported, inputs)
    program = runtime.load(runtime.export(exported, inputs, bench.folder))
    suspect, x = AccumulatingNorm(CHANNELS), as_array("input", inputs["input"])
    rows = []
    for number in range(CALLS):
        given = _only(program.run(inputs))
        rows.append(
            {
                "call": number,
                "from eager": compare(double, given).of_peak,
                "from the suspect": compare(suspect(x), given).of_peak,
            }
        )
    return tuple(rows)


def _once(name: str, exported: Exported, inputs: Mapping[str, Any]) -> Output:
    runtime = backend(name)
    return _only(runtime.load(runtime.export(exported, inputs)).run(inputs))


def _answers(runtime: Backend, made: Artifact, inputs: Mapping[str, Any], value: float | None) -> list[Output]:
    """Load the program afresh; return what it gives first, and then after inputs that are `value` everywhere.

    Raises
    ------
    RungError
        If it cannot be loaded or run.
    """
    with on_rung("loaded"):
        program: Program = runtime.load(made)
    with on_rung("run"):
        answers = [_only(program.run(inputs))]
        if value is not None:
            program.run({name: np.full_like(as_array(name, given), value) for name, given in inputs.items()})
        return answers + [_only(program.run(inputs)) for _ in range(AFTER)]


def _judged(after: str, number: int, right: Output, first: Output, given: Output) -> ReplayCall:
    found = compare(right, given)
    change = difference({"output": first}, {"output": given})
    return ReplayCall(after, number, found.finite, found.of_peak, found.snr_db, change)


def _only(outputs: Mapping[str, Output]) -> Output:
    """Return the one output of a program, a copy: the runtime may write there again."""
    (output,) = outputs.values()
    return output.copy()


def _line(failure: Failure) -> str:
    """Return a failure as one line, with what the runtime printed about it."""
    printed = [line for line in failure.log.splitlines() if "dim" in line or "rror" in line]
    return " ".join([str(failure), *printed[:2]])
