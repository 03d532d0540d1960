"""A pass that reorders the loops TVM writes, for processors: blocks in registers, vectors, all cores.

TVM has such rules for graphics processors (DLight) and searches for schedules otherwise (MetaSchedule); for processors
its rules are two, for a vector times a matrix and for norms, and leave convolutions as they are written. These
recognise functions by their structure, never by a name.
"""

from collections.abc import Callable, Collection, Mapping
from typing import Any

from kokoro_nb.backends.tvm.schedule.blocked import blocked
from kokoro_nb.backends.tvm.schedule.elements import elementwise
from kokoro_nb.backends.tvm.schedule.processor import Processor
from kokoro_nb.backends.tvm.schedule.rows import rowwise
from kokoro_nb.backends.tvm.schedule.sites import call_sites, constants, prepared

Rule = Callable[[Any, Processor, Collection[int]], Any | None]
RULES: Mapping[str, Rule] = {"blocked": blocked, "rowwise": rowwise, "elementwise": elementwise}


def scheduled(module: Any, target: Any) -> Any:
    """Return `module` with each of its functions of loops scheduled by the first rule that knows it.

    Parameters
    ----------
    module : tvm.IRModule
        Legalised, and fused or not.
    target : tvm.target.Target
        A processor.

    Returns
    -------
    tvm.IRModule
        A function that no rule knows is in it unchanged. `module` itself is not touched.
    """
    from tvm import ir, tirx

    machine, sites = Processor.of(target), call_sites(module)
    functions = dict(module.functions_items())
    for name, function in functions.items():
        if isinstance(function, tirx.PrimFunc):
            _, functions[name] = scheduled_by(function, machine, constants(sites.get(name.name_hint, [])))
    return prepared(ir.IRModule(functions, attrs=module.attrs, global_infos=module.global_infos))


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
