"""Where a Relax module calls its functions of loops, and what can be computed of them before it runs."""

from typing import Any

from kokoro_nb.backends.tvm.schedule.structure import every

MARK = "meta_schedule.layout_rewrite_preproc"  # TVM's name


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

    The blocks are those marked by `mark`. TVM splits them off as functions of their own, and folds these. The other
    functions are kept away from the first pass, which fails on some.
    """
    import tvm
    from tvm import ir, tirx
    from tvm.relax import transform

    functions = dict(module.functions_items())
    others = {name: f for name, f in functions.items() if isinstance(f, tirx.PrimFunc) and not _marked(f)}
    if len(others) + sum(not isinstance(f, tirx.PrimFunc) for f in functions.values()) == len(functions):
        return module
    rest = {name: f for name, f in functions.items() if name not in others}
    split = transform.SplitLayoutRewritePreproc()(ir.IRModule(rest, module.attrs, module.global_infos))
    whole = ir.IRModule({**dict(split.functions_items()), **others}, split.attrs, split.global_infos)
    return tvm.transform.Sequential([transform.FoldConstant(), transform.DeadCodeElimination()])(whole)


def mark(schedule: Any, block: Any) -> None:
    """Mark a block that copies a constant."""
    schedule.annotate(block, MARK, True)


def _marked(function: Any) -> bool:
    from tvm import s_tir

    return any(MARK in block.annotations for block in every(function.body, s_tir.SBlock))
