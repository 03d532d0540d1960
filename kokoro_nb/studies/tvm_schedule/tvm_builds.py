"""The decoder from `har` in eager PyTorch and in two builds by TVM: its loops as written, and scheduled."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kokoro.model import KModel

from kokoro_nb.backends import backend
from kokoro_nb.backends.base import Failure
from kokoro_nb.backends.exported import export_program
from kokoro_nb.backends.ladder import climb
from kokoro_nb.backends.tvm import Tvm
from kokoro_nb.models import stages
from kokoro_nb.models.case import Case
from kokoro_nb.models.patches import EXPORT_PATCHES, patched
from kokoro_nb.traces.parity import compare


@dataclass(frozen=True)
class TvmBuilds:
    """Both builds beside eager.

    Attributes
    ----------
    seconds : mapping
        ``eager`` and each build that ran -> its fastest call.
    absent : str
        Why TVM cannot run here; empty if it can.
    failures : mapping
        ``unscheduled`` and ``scheduled`` -> where it failed, or None.
    errors : mapping
        Build that ran -> largest difference to eager float32, of the peak.
    decisions : tuple
        What the scheduling did with each function: see `kokoro_nb.backends.tvm.Tvm.plan`.
    """

    seconds: Mapping[str, float]
    absent: str
    failures: Mapping[str, Failure | None]
    errors: Mapping[str, float]
    decisions: tuple[Any, ...]

    @property
    def gain(self) -> float | None:
        """How many times as fast the scheduled build is; None if one of the two did not run."""
        both = [self.seconds.get(name) for name in ("unscheduled", "scheduled")]
        return both[0] / both[1] if both[0] and both[1] else None

    def rows(self) -> list[dict[str, Any]]:
        """Return the rows of a table, with units in its keys."""
        eager = self.seconds["eager"]
        return [{"build": name, "run (s)": one, "run / eager": one / eager} for name, one in self.seconds.items()]

    def rules(self) -> list[dict[str, Any]]:
        """Return a row for each kind of function and the rule that scheduled it, with its share of the arithmetic."""
        total = sum(each.calls * each.flops for each in self.decisions)
        rows = []
        for kind, rule in sorted({(each.kind, each.rule or "none") for each in self.decisions}):
            some = [each for each in self.decisions if (each.kind, each.rule or "none") == (kind, rule)]
            row = {"kind": kind, "rule": rule, "functions": len(some), "calls": sum(each.calls for each in some)}
            share = sum(each.calls * each.flops for each in some) / total
            rows.append({**row, "share of the arithmetic (%)": 100 * share})
        return rows


def tvm_builds(model: KModel, case: Case, frames: int, calls: int) -> TvmBuilds:
    """Run the patched decoder from `har` in eager and in both builds, `calls` times each.

    Parameters
    ----------
    model : kokoro.model.KModel
        Without patches.
    case : Case
        The utterance.
    frames, calls : int
        How much of it, and how often each program is called.
    """
    with patched(model, EXPORT_PATCHES):
        inputs = stages.from_har_inputs(model.decoder, case.decoder_inputs(frames))
        module = stages.FromHarStage(model.decoder)
        exported = export_program(module, inputs)
        taken = {"eager": climb(backend("eager"), module, inputs, calls=calls)}
    builds = {"unscheduled": Tvm("tvm", scheduled=False), "scheduled": Tvm("tvm")}
    absent = builds["scheduled"].available() or ""
    if not absent:
        taken |= {name: climb(one, exported, inputs, calls=calls) for name, one in builds.items()}
    outputs = {name: one.outputs["output"] for name, one in taken.items() if one.outputs is not None}
    seconds = {name: min(taken[name].calls) for name in outputs}
    errors = {name: compare(outputs["eager"], outputs[name]).of_peak for name in builds if name in outputs}
    failures = {name: taken[name].failure for name in builds if name in taken}
    decisions = () if absent or isinstance(exported, Failure) else builds["scheduled"].plan(exported)
    return TvmBuilds(seconds, absent, failures, errors, decisions)
