"""Which operators of a Core ML model must stay float32: a search, confirmed by converting with the set found."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kokoro_nb.backends.base import quietly
from kokoro_nb.backends.coreml import CoreMl
from kokoro_nb.backends.coreml.conversion import MixedPrecision, handed_over
from kokoro_nb.backends.mil.interpreter import Interpreter
from kokoro_nb.backends.signature import Arrays
from kokoro_nb.errors import InputError
from kokoro_nb.locate.precision.degradation import INPUT, OperatorPrecision, worst
from kokoro_nb.locate.precision.lens import CoreMlFile, converted, examine
from kokoro_nb.locate.precision.matching import arguments, operations, read
from kokoro_nb.locate.search import smallest
from kokoro_nb.traces.parity import Parity, compare


@dataclass(frozen=True)
class PrecisionRepair:
    """A set of operators that makes a float16 model good, and how it was found.

    Attributes
    ----------
    mixed : MixedPrecision
        The operators that stay float32, in the order of execution: a precision for `CoreMl`, and code to paste.
    kept : tuple of str
        The same operators as eager has them: ``source.sine:sin``.
    operators : int
        How many there are to choose from.
    tolerance : float
        Largest error that was allowed, as a share of the peak of the float32 file's output.
    before, after : Parity
        The float16 file, and the file converted with `mixed`, against the float32 file; the furthest output of each.
    trials : int
        How many sets were tried.
    minimal : bool
        Whether every single operator was tried and cannot be left out. A smaller set of others may exist.
    """

    mixed: MixedPrecision
    kept: tuple[str, ...]
    operators: int
    tolerance: float
    before: Parity
    after: Parity
    trials: int
    minimal: bool

    def as_dict(self) -> dict[str, Any]:
        """Return the row of a table, with units in its keys."""
        return {
            "operators": self.operators,
            "float32": len(self.mixed.keep),
            "tolerance (of peak)": self.tolerance,
            "float16: error (of peak)": self.before.of_peak,
            "float16: finite (%)": 100 * self.before.finite,
            "mixed: error (of peak)": self.after.of_peak,
            "mixed: finite (%)": 100 * self.after.finite,
            "sets tried": self.trials,
            "none can be left out": self.minimal,
        }


def repair(
    module: Any,
    inputs: Arrays,
    tolerance: float = 1e-2,
    folder: str | Path | None = None,
    shrink: bool = True,
    start: Collection[str] = (),
) -> PrecisionRepair:
    """Search for a small set of operators that must stay float32, and convert the module with it.

    The set is `start` at first. It grows from where the trouble begins, the first of `Lens.sources`, by that operator
    and all that it is computed from, until the outputs are good. It shrinks by leaving out halves, quarters and at last
    single operators, as long as the outputs stay good. For every set the module is converted.

    Parameters
    ----------
    module : torch.nn.Module or Exported
        The module, patched as it is to be exported.
    inputs : mapping
        Name of a parameter of its forward -> tensor. The set is good for these values.
    tolerance : float
        Largest error of any output against the float32 file, as a share of its peak.
    folder : path, optional
        Where artefacts are kept.
    shrink : bool
        Whether to make the set small; without, it is what it grew to.
    start : collection of str
        Operators by their names in eager, as a diagnosis names them: ``source.sine:sin``.

    Raises
    ------
    InputError
        If the module cannot be converted, or is not good even with every operator in float32.
    """
    full = converted(module, inputs, folder)
    bench = _Bench(full, tolerance)
    before = bench.outcome(())
    keep = _grown(bench, start)
    if shrink:
        keep = list(smallest(keep, lambda names: bench.good(bench.outcome(names))))
    mixed = MixedPrecision(tuple(keep))
    after = bench.compared(converted(full.exported, inputs, folder, mixed).program)
    kept = tuple(full.names[name] for name in keep)
    return PrecisionRepair(mixed, kept, len(bench.names), tolerance, before, after, bench.trials, shrink)


class _Bench:
    """The saved float32 program, beside which sets of operators are tried."""

    def __init__(self, full: CoreMlFile, tolerance: float):
        self.full, self.tolerance = full, tolerance
        self.names = [_name(operation) for operation in operations(full.program)]
        self.expected = Interpreter(full.program).run(full.arrays)
        self.trials = 0

    def program(self, keep: Iterable[str]) -> Any:
        """Return the float16 program in which the operators `keep` are float32."""
        self.trials += 1
        mixed = CoreMl("coreml", precision=MixedPrecision(tuple(keep)))
        with quietly():
            program = handed_over(self.full.exported, mixed.route, mixed.core_operators)
            made = mixed.converted(self.full.exported, program)
        return made._mil_program

    def compared(self, program: Any) -> Parity:
        """Return the output of a program that is furthest from the float32 program's."""
        outputs = Interpreter(program).run(self.full.arrays).values()
        return worst([compare(*pair) for pair in zip(self.expected.values(), outputs, strict=True)])

    def outcome(self, keep: Iterable[str]) -> Parity:
        """Return how far the output is off with the operators `keep` in float32."""
        return self.compared(self.program(keep))

    def good(self, outcome: Parity) -> bool:
        """Return whether an outcome is finite and within the tolerance."""
        return outcome.finite == 1 and outcome.of_peak <= self.tolerance

    def upstream(self, row: OperatorPrecision) -> set[str]:
        """Return the operators that a result comes from; of an input of the program, those that read it."""
        if row.type == INPUT:
            return {_name(one) for one in operations(self.full.program) if row.value in read(one)}
        made = {variable: operation for operation in operations(self.full.program) for variable in operation.outputs}
        queue = [operation for variable, operation in made.items() if variable.name == row.value]
        found: set[str] = set()
        while queue:
            operation = queue.pop()
            if _name(operation) not in found:
                found.add(_name(operation))
                queue += [made[variable] for variable in arguments(operation) if variable in made]
        return found


def _name(operation: Any) -> str:
    return str(operation.outputs[0].name)


def _grown(bench: _Bench, start: Collection[str]) -> list[str]:
    """Return a set that is good, in the order of execution."""
    keep = {name for name in bench.names if bench.full.names[name] in start}
    while True:
        seen = examine(bench.full.program, bench.program(keep), bench.full.arrays, bench.full.names)
        if bench.good(seen.worst):
            return [name for name in bench.names if name in keep]
        if len(keep) == len(bench.names):
            raise InputError(
                f"With every operator in float32 the error is still {seen.worst.of_peak:.1e} of the peak, above "
                f"{bench.tolerance:.1e}: it comes from elsewhere; allow more, or patch the model."
            )
        # the first that adds any; where there is none it is ordinary rounding, anywhere
        additions = (bench.upstream(row) - keep for row in seen.sources)
        keep |= next(filter(None, additions), set(bench.names))
