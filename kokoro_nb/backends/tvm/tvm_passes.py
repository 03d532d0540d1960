"""From a Relax module to code: the list of passes, in parts, so that a build can be made with other ones."""

from typing import Any

from kokoro_nb.backends.tvm.quick_folding import quick_folding


def passes(target: Any, fused: bool = True, scheduled: bool = True, listing: Any = None) -> list[Any]:
    """Return the passes that take a Relax module, as `importer.relax_module` makes it, to the virtual machine.

    Parameters
    ----------
    target : tvm.target.Target
        What is compiled for.
    fused : bool
        Join operators into one function. Without, each operator of the Relax module is one call on the virtual
        machine, in the order of the module, so that `VirtualMachine.set_instrument` sees every intermediate tensor.
    scheduled : bool
        Reorder the loops. Without, a processor gets them as they are written; graphics processors cannot do without.
    listing : tvm.transform.Pass, optional
        Run as soon as each operator is a call that fills a tensor; see `compiled_program.Calls`.

    Returns
    -------
    list of tvm.transform.Pass
    """
    return [*loops(target, fused, scheduled), *lowering(listing)]


def loops(target: Any, fused: bool = True, scheduled: bool = True) -> list[Any]:
    """Return those of `passes` that make functions of loops, as they are compiled."""
    return [*legalisation(), *(fusion() if fused else []), *scheduling(target, scheduled)]


def legalisation() -> list[Any]:
    """Return the passes that turn each Relax operator into a function of loops, and fold what is constant."""
    from tvm.relax import backend, transform

    return [
        backend.DispatchSampling(),
        backend.DispatchSortScan(),
        transform.LegalizeOps(),
        transform.AnnotateTIROpPattern(),
        transform.FoldConstant(),
    ]


def fusion() -> list[Any]:
    """Return the passes that join functions of loops."""
    from tvm.relax import transform

    return [transform.FuseOps(), transform.FuseTIR()]


def scheduling(target: Any, scheduled: bool) -> list[Any]:
    """Return the pass that reorders the loops, if there is one for `target`."""
    if target.kind.name != "llvm":
        from tvm.s_tir import dlight

        return [dlight.ApplyDefaultSchedule(dlight.gpu.Fallback())]

    return [_schedule(target)] if scheduled else []


def lowering(listing: Any = None) -> list[Any]:
    """Return the passes that plan the memory and turn the Relax function into calls of the virtual machine."""
    from tvm.relax import transform

    return [
        transform.RewriteDataflowReshape(),
        transform.ToNonDataflow(),
        transform.RemovePurityChecking(),
        transform.CallTIRRewrite(),
        *([listing] if listing is not None else []),
        transform.StaticPlanBlockMemory(),
        transform.LowerAllocTensor(),
        transform.KillAfterLastUse(),
        transform.LowerRuntimeBuiltin(),
        transform.ComputePrimValue(),
        transform.VMShapeLower(),
        transform.AttachGlobalSymbol(),
    ]


def compiled(module: Any, target: Any, fused: bool = True, scheduled: bool = True, listing: Any = None) -> Any:
    """Compile a Relax module and return TVM's executable."""
    return built(applied(passes(target, fused, scheduled, listing), module, target), target)


def built(module: Any, target: Any) -> Any:
    """Return TVM's executable of a Relax module that all passes have gone over."""
    import tvm

    with target:
        return tvm.relax.build(module, target, relax_pipeline=None)


def applied(chosen: list[Any], module: Any, target: Any) -> Any:
    """Return what some passes make of a Relax module for `target`, one after the other."""
    import tvm

    with target, quick_folding():
        return tvm.transform.Sequential(chosen)(module)


def _schedule(target: Any) -> Any:
    import tvm

    from kokoro_nb.backends.tvm.schedule import scheduled

    @tvm.transform.module_pass(opt_level=0)
    def schedule(module: Any, _context: Any) -> Any:
        return scheduled(module, target)

    return schedule
