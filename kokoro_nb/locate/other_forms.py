"""Operators written in another form that is equal in exact arithmetic, and operators that are kept in float32."""

from collections.abc import Collection
from typing import Any

from kokoro_nb.backends.exported import Exported
from kokoro_nb.faults.planting import copied_program, with_program
from kokoro_nb.faults.planting_site import FaultSite
from kokoro_nb.locate.forms import DECOMPOSED, OtherForm, added, arithmetic, functions, indexing, summing
from kokoro_nb.traces.operators import VIEWS, Operator

FORMS: dict[str, tuple[OtherForm, ...]] = arithmetic.FORMS | functions.FORMS | indexing.FORMS | summing.FORMS


def forms_of(kind: str) -> tuple[OtherForm, ...]:
    """Return the other forms of operators of a kind, those of this package first."""
    return tuple(dict.fromkeys((*FORMS.get(kind, ()), DECOMPOSED)))


def in_other_form(exported: Exported, names: Collection[str], form: OtherForm) -> Exported | None:
    """Return a program in which the operators `names` are written in another form; None where none could be."""
    program, results = copied_program(exported)
    changed = False
    for name in names:
        node = results[name]
        site = FaultSite(program, node, name)
        result = form.write(site)
        if result is not None:
            site.give(result)
            program.graph.erase_node(node)
            changed = True
    return with_program(exported, program) if changed else None


def float32_region(operators: Collection[Operator], names: Collection[str]) -> tuple[str, ...]:
    """Return operators with those that read their results, and all that lies between any of them, in execution order.

    What is kept in float32 has to be read in float32, directly or through views, and has to stay it on the way from one
    to the next: a copy between them in float16 would round again.
    """
    kept, passing = set(names), set(names)
    for operator in operators:
        if passing.intersection(operator.inputs):
            kept.add(operator.name)
            if operator.kind in VIEWS:
                passing.add(operator.name)
    after, before = set(kept), set(kept)
    for operator in operators:
        if after.intersection(operator.inputs):
            after.add(operator.name)
    for operator in reversed([*operators]):
        if operator.name in before:
            before.update(operator.inputs)
    return tuple(operator.name for operator in operators if operator.name in after & before)


def kept_in_float32(exported: Exported, names: Collection[str], blocks: bool) -> Exported | None:
    """Return a program in which the float16 operators `names` compute in float32; None where there are none.

    What one of them gives to another stays float32 on the way; what others read is rounded to float16. With `blocks`
    running sums are computed in blocks.
    """
    import torch

    program, results = copied_program(exported)
    wide: dict[Any, Any] = {}
    cast = torch.ops.aten._to_copy.default
    chosen = {results[name] for name in names if name in results}
    for node in [one for one in program.graph.nodes if one in chosen]:
        site = FaultSite(program, node, node.name)
        if node.meta["val"].dtype != torch.float16 or site.is_element:
            continue

        def widened(argument: Any, site: FaultSite = site) -> Any:
            if argument in wide:
                return wide[argument]
            if argument.meta["val"].dtype != torch.float16:
                return argument
            return site.emit(cast, argument, ahead=True, dtype=torch.float32)

        args, kwargs = torch.fx.node.map_arg((node.args, node.kwargs), widened)
        kwargs = {key: torch.float32 if value is torch.float16 else value for key, value in kwargs.items()}
        if blocks and site.op == "aten.cumsum.default":
            result = added(site, summing.RUNNING.function, self=args[0], dim=args[1])
        else:
            result = site.emit(node.target, *args, **kwargs)
        rounded = site.emit(cast, result, dtype=torch.float16)
        site.give(rounded)
        program.graph.erase_node(node)
        wide[rounded] = result
    if not wide:
        return None
    for rounded in wide:
        if not rounded.users:
            program.graph.erase_node(rounded)
    return with_program(exported, program)
