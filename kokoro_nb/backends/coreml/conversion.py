"""What `coremltools.convert` is handed, and which values of what it makes are the results of the model's operators."""

from collections import Counter
from typing import Any, Literal

from kokoro_nb.backends.exported import Exported
from kokoro_nb.patch_registry import with_patches

Route = Literal["export", "trace", "traced program"]
# casts that coremltools puts in for storage alone: a result is what stands before them
INSERTED = {"add_fp16_cast", "adjust_io_to_supported_types"}


def handed_over(exported: Exported, route: Route, core_operators: bool) -> Any:
    """Return the exported program, its nodes numbered for `places`, or a trace of the module or of the program."""
    if route != "export":
        return _traced(exported.module if route == "trace" else exported.program.module(), exported)
    program = exported.program.run_decompositions() if core_operators else exported.specification.program
    for number, node in enumerate(program.graph.nodes):
        node.meta["debug_handle"] = number
    return program


def declared_inputs(exported: Exported) -> list[Any]:
    """Return what a trace does not say of its inputs, in the dtypes that Core ML has: float32 and int32."""
    import coremltools as ct
    import numpy as np

    return [
        ct.TensorType(
            name=spec.name,
            shape=spec.shape or (1,),
            dtype=np.int32 if np.dtype(spec.held).kind in "iu" else np.float32,
        )
        for spec in exported.inputs
    ]


def places(model: Any, program: Any, exported: Exported) -> dict[str, str]:
    """Return the name of the value that holds each operator's result, in a model made of a numbered program.

    An operator that was fused of several holds the result of the last of them. A value stored in float16 is a result
    all the same. A value that a planted fault goes on to change is no result of the operator.
    """
    from coremltools.converters.mil.mil.scope import ScopeSource

    nodes = list(program.graph.nodes)
    holders = exported.specification.results(nodes)
    shapes = {operator.name: operator.shape for operator in exported.specification.operators}
    found: dict[str, str] = {}
    for operation in model._mil_program.functions["main"].operations:
        handles = [one for one in operation.scopes.get(ScopeSource.EXIR_DEBUG_HANDLE, ()) if one is not None]
        inserted = INSERTED.intersection(operation.scopes.get(ScopeSource.COREMLTOOLS_GRAPH_PASS, ()))
        if operation.op_type == "const" or not handles or (operation.op_type == "cast" and inserted):
            continue
        results = exported.specification.sources_of(nodes[max(handles)], len(operation.outputs), holders)
        for name, variable in zip(results, operation.outputs, strict=True):
            if name is not None and tuple(variable.shape) == shapes[name]:
                found[name] = variable.name
    return found


def _traced(module: Any, exported: Exported) -> Any:
    """Trace a module on zeros; what it computes cannot hang on them, or `torch.export` would have refused it."""
    import torch
    from torch.utils._pytree import tree_unflatten

    zeros = [torch.zeros(spec.shape, dtype=getattr(torch, spec.dtype)) for spec in exported.inputs]
    args, kwargs = tree_unflatten(zeros, exported.program.call_spec.in_spec)
    with with_patches(exported.patches), torch.no_grad():
        return torch.jit.trace(module, args or None, check_trace=False, example_kwarg_inputs=kwargs or None)


def reader_of_number(trace: Any, exported: Exported) -> str:
    """Return a note on the first operator that takes a number which a trace computes, as ``x[: n // 2]`` does.

    coremltools names what computes the number, which is no operator of the model.
    """
    numbers: set[str] = set()
    counts = Counter[str]()
    for node in trace.inlined_graph.nodes():
        kind, read = node.kind().partition("::")[2], {value.debugName() for value in node.inputs()}
        named = [one.name for one in exported.specification.operators if one.kind == kind]
        if named and numbers & read:
            place = exported.specification.node_name(named[min(counts[kind], len(named) - 1)])
            return f"at '{place}' (which takes a number that the trace computes)"
        counts[kind] += 1
        if kind == "Int" or numbers & read:
            numbers |= {value.debugName() for value in node.outputs()}
    return ""
