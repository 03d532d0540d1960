"""From a torch program to a MIL program, and from that to a Core ML model, in two steps.

coremltools can do both in one call. In two, the program can be looked at and run before its optimisation passes, and
every output gets an operator of its own, so that it keeps our name: in one call an output that is an input, a constant
or another output as well takes the name away from it.
"""

from collections.abc import Sequence
from typing import Any

from kokoro_nb.backends.coreml.interface import INTERFACE, feature_names, require_lossless
from kokoro_nb.backends.coreml.naming import settle, settling_pipeline
from kokoro_nb.backends.exported import Exported, output_specs
from kokoro_nb.backends.signature import TensorSpec, call_arguments, named_outputs
from kokoro_nb.patch_registry import with_patches

SCOPE = "kokoro_nb"


def mil_program(exported: Exported, route: str, target: str) -> Any:
    """Return the MIL program as coremltools' frontend makes it, before any of its optimisation passes.

    Parameters
    ----------
    exported : Exported
        The module.
    route : str
        ``export``: from the exported program; ``trace``: from `torch.jit.trace` of its module.
    target : str
        Name of a member of ``coremltools.target``.

    Returns
    -------
    coremltools.converters.mil.Program
        Its inputs are named as ours, its outputs as ours where an output may be.

    Raises
    ------
    InputError
        If an input or output is of a dtype that Core ML does not carry.
    """
    import coremltools as ct
    from coremltools.converters.mil import Builder as mb

    require_lossless(exported.inputs, "input")
    require_lossless(output_specs(exported), "output")
    mb.name_count.clear()  # a conversion that failed leaves its numbers, and the next one's names would go on from them
    program = ct.convert(
        _traced(exported) if route == "trace" else _numbered(exported),
        source="pytorch",
        convert_to="milinternal",
        inputs=[_input_type(spec) for spec in exported.inputs],
        minimum_deployment_target=getattr(ct.target, target),
        compute_precision=ct.precision.FLOAT32,
        pass_pipeline=ct.PassPipeline.EMPTY,
    )
    _name_outputs(program, exported.outputs)
    return program


def model_of(program: Any, target: str, precision: Any) -> Any:
    """Run coremltools' passes over a MIL program, which they change, and make a Core ML model of it.

    Parameters
    ----------
    program : coremltools.converters.mil.Program
        What `mil_program` returned.
    target : str
        The one that it was made for.
    precision : coremltools.precision or coremltools.transform.FP16ComputePrecision
        What the operators compute in; inputs and outputs stay float32.
    """
    import coremltools as ct

    return ct.convert(
        program,
        source="milinternal",
        convert_to="mlprogram",
        minimum_deployment_target=getattr(ct.target, target),
        compute_precision=precision,
        pass_pipeline=settling_pipeline(),
        skip_model_load=True,
    )


def lowered_precision(program: Any, precision: Any) -> None:
    """Give a float32 MIL program the precision of `coremltools.transform.FP16ComputePrecision`, in place.

    These are the passes by which `model_of` does it; what they make of a saved float32 program computes what a float16
    file of the same module computes.
    """
    from coremltools.converters.mil.mil.passes.pass_registry import PASS_REGISTRY

    settle(program)
    cast = PASS_REGISTRY["common::add_fp16_cast"]
    cast.op_selector = precision.op_selector
    cast(program)
    for name in ("const_elimination", "cast_optimization", "dead_code_elimination"):
        PASS_REGISTRY[f"common::{name}"](program)


def places(model: Any, exported: Exported) -> dict[str, str]:
    """Return the name of the value that holds each operator's result, in a model that was made on the route ``export``.

    An operator that was fused of several holds the result of the last of them. A value stored in float16 is a result
    all the same. A value that a planted fault goes on to change is no result of the operator.
    """
    nodes = list(exported.specification.program.graph.nodes)
    holders = exported.specification.results(nodes)
    shapes = {operator.name: operator.shape for operator in exported.specification.operators}
    found: dict[str, str] = {}
    for operation in model._mil_program.functions["main"].operations:
        handles = [handle for handle in operation.scopes.get(_handle_source(), ()) if handle is not None]
        if operation.op_type == "const" or not handles:
            continue
        results = exported.specification.sources_of(nodes[max(handles)], len(operation.outputs), holders)
        for name, variable in zip(results, operation.outputs, strict=True):
            if name is not None and tuple(variable.shape) == shapes[name]:
                found[name] = variable.name
    return found


def _numbered(exported: Exported) -> Any:
    """Return the exported program in the operators that coremltools takes, its nodes numbered for `places`."""
    program = exported.specification.program
    for number, node in enumerate(program.graph.nodes):
        node.meta["debug_handle"] = number
    return program


def _handle_source() -> Any:
    from coremltools.converters.mil.mil.scope import ScopeSource

    return ScopeSource.EXIR_DEBUG_HANDLE


def _input_type(spec: TensorSpec) -> Any:
    import coremltools as ct
    import numpy as np

    dtype = np.dtype(bool if spec.dtype == "bool" else INTERFACE[spec.dtype]).type
    return ct.TensorType(name=spec.name, shape=spec.shape or (1,), dtype=dtype)


def _traced(exported: Exported) -> Any:
    """Trace the module on zeros; what it computes cannot hang on them, or `torch.export` would have refused it."""
    import torch

    class Flat(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.module = exported.module

        def forward(self, *tensors: Any) -> tuple[Any, ...]:
            named = {spec.name: tensor for spec, tensor in zip(exported.inputs, tensors, strict=True)}
            args, kwargs = call_arguments(self.module, named)
            # a clone, because a tensor of the module may not leave a traced graph as it is
            return tuple(
                value.clone() for value in named_outputs(self.module(*args, **kwargs), exported.outputs).values()
            )

    zeros = tuple(torch.zeros(spec.shape, dtype=getattr(torch, spec.dtype)) for spec in exported.inputs)
    with with_patches(exported.patches), torch.no_grad():
        return torch.jit.trace(Flat().eval(), zeros, check_trace=False)


def _name_outputs(program: Any, names: Sequence[str]) -> None:
    """Give each output an identity of its own, under our name."""
    from coremltools.converters.mil import Builder as mb
    from coremltools.converters.mil.mil.scope import ScopeInfo, ScopeSource

    function = program.functions["main"]
    features = feature_names(names, list(function.inputs))
    origin: dict[Any, list[Any]] = {
        source: [SCOPE] for source in ScopeSource if source is not ScopeSource.COREMLTOOLS_GRAPH_PASS
    }
    origin[ScopeSource.EXIR_DEBUG_HANDLE] = [None]
    with function, mb.scope(*(ScopeInfo(source=source, data=data) for source, data in origin.items())):
        outputs = [
            mb.identity(x=output, name=feature) for output, feature in zip(function.outputs, features, strict=True)
        ]
    function.set_outputs(outputs)
