"""A pass that reorders the loops TVM writes, for processors: blocks in registers, vectors, all cores.

TVM has such rules for graphics processors (DLight) and searches for schedules otherwise (MetaSchedule); for processors
its rules are two, for a vector times a matrix and for norms, and leave convolutions as they are written. These
recognise functions by their structure, never by a name.
"""

from typing import Any

from kokoro_nb.backends.tvm.schedule.processor import Processor
from kokoro_nb.backends.tvm.schedule.rules import scheduled_by
from kokoro_nb.backends.tvm.schedule.sites import call_sites, constants, prepared


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
