"""A remedy, and the plainest ones, measured: the reference's form, a file exported anew, noise as an input, patches."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Literal

import numpy as np
import torch
from torch import nn
from torch.overrides import TorchFunctionMode

from kokoro_nb.backends.base import Backend, Failure, quietly
from kokoro_nb.backends.exported import Exported, as_exported
from kokoro_nb.backends.signature import Arrays, example_inputs
from kokoro_nb.errors import InputError, one_line
from kokoro_nb.findings import Verdict
from kokoro_nb.locate.investigation import Subject, reference_trace
from kokoro_nb.locate.local_error import explained_errors
from kokoro_nb.locate.output_error import LOST, OutputError, output_error
from kokoro_nb.patch_registry import needed_patches, with_patches

RemedyKind = Literal["patch", "setting", "float32 operators", "other form"]


@dataclass(frozen=True)
class Remedy:
    """One change to a program or its export, and what it does to the output.

    Attributes
    ----------
    kind : str
        ``patch`` (a named patch of the package), ``setting`` (of the export), ``float32 operators`` (which are kept in
        float32) or ``other form`` (the operator written as others that compute the same).
    name : str
        Of the patch, setting or form.
    statement : str
        What is changed, in one sentence.
    error_before, error_after : float
        Largest error of the output on the runtime, of its peak; NaN where it is not finite or did not export.
    verdict : str
        ``pass``: the output is within its limit afterwards; ``fail``: it is not; ``unknown``: it could not be measured.
    reason : str
        Why it is ``unknown``, or what is still wrong.
    outputs : dict of numpy.ndarray or None
        What the runtime gives with it, each output by its name; None where it gave nothing.
    """

    kind: RemedyKind
    name: str
    statement: str
    error_before: float
    error_after: float
    verdict: Verdict
    reason: str = ""
    outputs: Mapping[str, np.ndarray] | None = field(default=None, repr=False, compare=False)

    def __str__(self) -> str:
        figures = f"error of the output {self.error_before:.3g} of the peak before, {self.error_after:.3g} after"
        return f"{self.statement} {self.verdict}: {figures}" + (f"; {self.reason}" if self.reason else "")

    def as_dict(self) -> dict[str, Any]:
        """Return the row of a table, with units in its keys."""
        return {
            "remedy": self.name,
            "kind": self.kind,
            "what is changed": self.statement,
            "output before (of peak)": self.error_before,
            "output after (of peak)": self.error_after,
            "verdict": self.verdict,
            "note": self.reason,
        }


Plan = tuple[RemedyKind, str, str, Callable[[], Any]]  # kind, name, statement, and what computes the outputs


def tried(subject: Subject, plans: Iterable[Plan], before: OutputError | None = None) -> tuple[Remedy, ...]:
    """Return the remedies that were tried, in their order; the last one passes, or none does.

    Parameters
    ----------
    subject : Subject
        The program as it is; what is right is what it should compute.
    plans : iterable of Plan
        What is changed. An outcome that is a failure or a sentence says why it gives no outputs; None changes nothing.
    before : OutputError or None
        How far its output is off; None where it gives none.
    """
    size, found = float("nan") if before is None else before.of_peak, list[Remedy]()
    own = cache(lambda: explained_errors(reference_trace(subject.healthy, subject.inputs)))
    for kind, name, statement, outcome in plans:
        try:
            with quietly():
                outputs = outcome()
        except Exception as error:  # the cure of a wrong export may fail in whatever way, and that is its result
            outputs = one_line(error)
        if outputs is None:
            continue
        about = kind, name, statement, size
        if isinstance(outputs, Failure | str):
            found.append(Remedy(*about, float("nan"), "unknown", str(outputs)))
            continue
        after = _error(subject, outputs, own)
        right = after.verdict == "pass"
        found.append(Remedy(*about, after.of_peak, after.verdict, "" if right else str(after), outputs))
        if right:
            break
    return tuple(found)


def _error(subject: Subject, outputs: Mapping[str, np.ndarray], own: Callable[[], Any]) -> OutputError:
    converter = getattr(subject.runtime, "converter", subject.runtime)
    rounded = getattr(converter, "precision", "float32") != "float32"  # Core ML's own choice is float16
    dtypes = [operator.dtype for operator in subject.candidate.specification.operators]
    about = subject.known, outputs, ["float16"] if rounded else dtypes
    after, _ = output_error(*about, limit=subject.limit)
    if after.verdict == "fail" and after.of_peak <= LOST and subject.limit is None:
        after, _ = output_error(*about, own())  # another order of sums may be further off
    return after


Change = tuple[RemedyKind, str, str]  # kind, name, statement
AS_THE_REFERENCE: Change = (
    "other form",
    "the reference's form",
    "Write it as the reference has it, on inputs of the reference's length.",
)
EXPORTED_ANEW: Change = "setting", "exported anew", "Export the module again, in float32 and by the installed torch."
NOISE_AS_INPUT: Change = "other form", "noise as an input", "The noise becomes an input, which the caller draws."


def in_its_place(change: Change, runtime: Backend, program: Any, inputs: Arrays, before: OutputError | None) -> Remedy:
    """Return what a program gives in place of another one, on inputs of its own, beside what it should compute itself.

    Where `program` is a failure or a sentence, it says why there is none.
    """
    subject = Subject(runtime, program, program, inputs)
    outcome = subject.outputs if isinstance(program, Exported) else lambda: program
    return tried(subject, [(*change, outcome)], before)[0]


def with_noise_as_input(runtime: Backend, candidate: Exported, inputs: Arrays, before: OutputError | None) -> Remedy:
    """Return what it does to make inputs of the random numbers that the program draws, one draw for both runs.

    ``unknown`` where they are drawn by a function that `noise_as_input` does not know: a cure never ends a diagnosis.
    """
    program: Any
    with with_patches(candidate.patches):
        try:
            module, inputs = noise_as_input(candidate.module, inputs)
            program = as_exported(module, inputs, runtime.name)
        except InputError as error:
            program = str(error)
    return in_its_place(NOISE_AS_INPUT, runtime, program, inputs, before)


def with_needed_patches(runtime: Backend, candidate: Exported, inputs: Arrays) -> tuple[Remedy, ...]:
    """Return what the patches do that the runtime is known to need, all of a catalogue at once, where there are any."""
    found = []
    with with_patches(candidate.patches):
        for names, applied in needed_patches(candidate.module, runtime.name):
            words = ", ".join(names)
            statement = f"The patch{'es' if len(names) > 1 else ''} {words} that {runtime.name} needs."
            with applied(candidate.module, names) as module:
                exported = as_exported(module, inputs, runtime.name)
                found.append(in_its_place(("patch", words, statement), runtime, exported, inputs, None))
    return tuple(found)


DRAWS = (torch.randn, torch.rand, torch.randn_like, torch.rand_like)


class _Draws(TorchFunctionMode):
    """Notes what is drawn; where tensors are given, it gives these in turn in the place of what would be drawn."""

    def __init__(self, given: list[torch.Tensor] | None = None) -> None:
        super().__init__()
        self.given, self.drawn = given, list[torch.Tensor]()

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func in DRAWS and self.given is not None:
            return self.given.pop(0)
        result = func(*args, **(kwargs or {}))
        if func in DRAWS:
            self.drawn.append(result)
        return result


class NoiseAsInput(nn.Module):
    """A module that takes what it would draw as the inputs ``noise_0``, ``noise_1``, ..., in the order of its draws."""

    def __init__(self, module: nn.Module, names: Iterable[str]) -> None:
        super().__init__()
        self.module, self.names = module, tuple(names)

    def forward(self, **values: torch.Tensor) -> Any:
        """Return what the module returns, with the noise that is given."""
        with _Draws([values.pop(name) for name in self.names]):
            return self.module(**values)


def noise_as_input(module: nn.Module, inputs: Arrays) -> tuple[nn.Module, dict[str, Any]]:
    """Return a module that takes its noise as inputs, and its inputs with one draw (seed 0).

    Parameters
    ----------
    module : torch.nn.Module
        May call ``torch.randn``, ``rand``, ``randn_like`` and ``rand_like``.
    inputs : mapping
        Name of a parameter of its forward -> array or tensor.

    Raises
    ------
    InputError
        If it calls none of them.
    """
    values = {name: torch.from_numpy(array) for name, array in example_inputs(module, inputs).items()}
    recorded = _Draws()
    with torch.random.fork_rng(devices=[]), torch.no_grad(), recorded:
        torch.manual_seed(0)
        module(**values)
    if not recorded.drawn:
        raise InputError("The module calls no function that draws random numbers; there is no noise to make an input.")
    noise = {f"noise_{place}": value for place, value in enumerate(recorded.drawn)}
    return NoiseAsInput(module, noise), {**inputs, **noise}
