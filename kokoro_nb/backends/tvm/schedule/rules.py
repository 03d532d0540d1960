"""The rules in the order in which they are tried."""

from collections.abc import Callable, Collection, Mapping
from typing import Any

from kokoro_nb.backends.tvm.schedule.blocked import blocked
from kokoro_nb.backends.tvm.schedule.elements import elementwise
from kokoro_nb.backends.tvm.schedule.processor import Processor
from kokoro_nb.backends.tvm.schedule.rows import rowwise

Rule = Callable[[Any, Processor, Collection[int]], Any | None]
RULES: Mapping[str, Rule] = {"blocked": blocked, "rowwise": rowwise, "elementwise": elementwise}


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
