"""A pass that reorders the loops TVM writes, for processors: blocks in registers, vectors, all cores.

TVM has such rules for graphics processors (DLight) and searches for schedules otherwise (MetaSchedule); for processors
its rules are two, for a vector times a matrix and for norms, and leave convolutions as they are written. These
recognise functions by their structure, never by a name.
"""

from collections.abc import Callable, Collection, Mapping
from typing import Any

from kokoro_nb.backends.tvm.schedule.blocked import blocked
from kokoro_nb.backends.tvm.schedule.loop_rules import MARK, Processor
from kokoro_nb.backends.tvm.schedule.rows import elementwise, rowwise
from kokoro_nb.backends.tvm.schedule.structure import every

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


def call_sites(module: Any) -> dict[str, list[Any]]:
    """Return the arguments of every call of a function of loops, by the function's name."""
    from tvm import ir, relax

    found: dict[str, list[Any]] = {}
    call_tir = ir.Op.get("relax.call_tir")

    def note(expression: Any) -> None:
        if isinstance(expression, relax.Call) and expression.op.same_as(call_tir):
            found.setdefault(expression.args[0].name_hint, []).append(list(expression.args[1].fields))

    for _, function in module.functions_items():
        if isinstance(function, relax.Function):
            relax.analysis.post_order_visit(function, note)
    return found


def constants(sites: list[Any]) -> frozenset[int]:
    """Return the places of the arguments that are constants in every call."""
    from tvm import ir

    places = range(len(sites[0])) if sites else ()
    return frozenset(i for i in places if all(isinstance(arguments[i], ir.GenericConst) for arguments in sites))


def prepared(module: Any) -> Any:
    """Return `module` with all that its functions copy out of constants copied already.

    The blocks are those marked with `MARK`. TVM splits them off as functions of their own, and folds these. The other
    functions are kept away from the first pass, which fails on some.
    """
    import tvm
    from tvm import ir, s_tir, tirx
    from tvm.relax import transform

    def marked(function: Any) -> bool:
        return any(MARK in block.annotations for block in every(function.body, s_tir.SBlock))

    functions = dict(module.functions_items())
    others = {name: f for name, f in functions.items() if isinstance(f, tirx.PrimFunc) and not marked(f)}
    if len(others) + sum(not isinstance(f, tirx.PrimFunc) for f in functions.values()) == len(functions):
        return module
    rest = {name: f for name, f in functions.items() if name not in others}
    split = transform.SplitLayoutRewritePreproc()(ir.IRModule(rest, module.attrs, module.global_infos))
    whole = ir.IRModule({**dict(split.functions_items()), **others}, split.attrs, split.global_infos)
    return tvm.transform.Sequential([transform.FoldConstant(), transform.DeadCodeElimination()])(whole)
