"""Which operators of a Core ML model must stay float32: a search, confirmed by converting with the set found."""

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from kokoro_nb.backends.base import quietly
from kokoro_nb.backends.coreml import CoreMl
from kokoro_nb.backends.coreml.conversion import MixedPrecision, handed_over
from kokoro_nb.backends.mil.interpreter import Interpreter
from kokoro_nb.backends.signature import Arrays
from kokoro_nb.errors import InputError
from kokoro_nb.locate.precision.degradation import worst
from kokoro_nb.locate.precision.lens import converted, operations
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

    Where `start` is not enough, it is every operator. The set shrinks by leaving out halves, quarters and at last
    single operators, as long as the outputs stay good: see `locate.search`. For every set the module is converted.

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
        Whether to make the set small; without, it is `start`, or every operator.
    start : collection of str
        Operators by their names in eager, as a diagnosis names them: ``source.sine:sin``.

    Raises
    ------
    InputError
        If the module cannot be converted, or is not good even with every operator in float32.
    """
    full = converted(module, inputs, folder)
    names = tuple(one.outputs[0].name for one in operations(full.program))
    expected = Interpreter(full.program).run(full.arrays)

    def compared(program: Any) -> Parity:
        outputs = Interpreter(program).run(full.arrays).values()
        return worst([compare(*pair) for pair in zip(expected.values(), outputs, strict=True)])

    @cache
    def outcome(keep: tuple[str, ...]) -> Parity:
        mixed = CoreMl("coreml", precision=MixedPrecision(keep))
        with quietly():
            program = handed_over(full.exported, mixed.route, mixed.core_operators)
            made = mixed.converted(full.exported, program)
        return compared(made._mil_program)

    def good(keep: tuple[str, ...]) -> bool:
        return outcome(keep).finite == 1 and outcome(keep).of_peak <= tolerance

    def starts() -> Iterator[tuple[str, ...]]:
        yield ()
        yield tuple(name for name in names if full.names[name] in start)
        yield names
        raise InputError(
            f"With every operator in float32 the error is still {outcome(names).of_peak:.1e} of the peak, above "
            f"{tolerance:.1e}: it comes from elsewhere; allow more, or patch the model."
        )

    keep = smallest(names, good, starts()) if shrink else next(filter(good, starts()))
    mixed = MixedPrecision(keep)
    after = compared(converted(full.exported, inputs, folder, mixed).program)
    kept = tuple(full.names[name] for name in keep)
    tried = outcome.cache_info().misses
    return PrecisionRepair(mixed, kept, len(names), tolerance, outcome(()), after, tried, shrink)
