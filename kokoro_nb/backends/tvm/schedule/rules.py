"""The rules in the order in which they are tried, and what each says of a function."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

from kokoro_nb.backends.tvm.schedule.blocked import blocked
from kokoro_nb.backends.tvm.schedule.contraction import contraction
from kokoro_nb.backends.tvm.schedule.elements import elementwise
from kokoro_nb.backends.tvm.schedule.phases import phased
from kokoro_nb.backends.tvm.schedule.processor import Processor
from kokoro_nb.backends.tvm.schedule.rows import rowwise
from kokoro_nb.backends.tvm.schedule.structure import nests

Rule = Callable[[Any, Processor, Collection[int]], Any | None]
RULES: Mapping[str, Rule] = {"blocked": blocked, "rowwise": rowwise, "elementwise": elementwise}


@dataclass(frozen=True)
class Decision:
    """What became of one function.

    Attributes
    ----------
    function : str
        Its name in the module.
    kind : str
        What it computes: ``convolution``, ``transposed convolution``, ``matmul``, ``reduction``, ``elementwise``, or
        ``other`` where its form is not known.
    flops : float
        Operations on numbers per call, as TVM counts them; of a convolution or a matrix product two per product.
    rule : str or None
        The rule that scheduled it; None where it is left as it was.
    calls : int
        From how many places the module calls it.
    """

    function: str
    kind: str
    flops: float
    rule: str | None
    calls: int


def scheduled_by(function: Any, machine: Processor, constants: Collection[int]) -> tuple[str | None, Any]:
    """Return the name of the rule that takes `function`, and the function scheduled; None and the function if none.

    `constants` are the places of the parameters that are the same whenever the function is called from one place.
    """
    from tvm.s_tir import ScheduleError

    for name, rule in RULES.items():
        try:
            schedule = rule(function, machine, constants)
        except ScheduleError:  # recognised, but a step does not apply: the next rule may do
            continue
        if schedule is not None:
            return name, schedule.mod["main"].with_attr("tirx.is_scheduled", True)
    return None, function


def described(function: Any) -> tuple[str, float]:
    """Return the kind of a function and its operations per call."""
    from tvm import ir, s_tir

    found = nests(function)
    if found is None:
        return "other", 0.0
    count = float(s_tir.analysis.estimate_tir_flops(ir.IRModule({"main": function})))
    phases = phased(function)
    works = [work for work in map(contraction, found if phases is None else nests(phases) or []) if work is not None]
    if works:
        return works[0].kind if phases is None else "transposed convolution", float(sum(work.flops for work in works))
    return "elementwise" if all(nest.injective for nest in found) else "reduction", count
