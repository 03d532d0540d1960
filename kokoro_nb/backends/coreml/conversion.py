"""What `coremltools.convert` is handed, and which values of what it makes are the results of the model's operators."""

import copy
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from kokoro_nb.backends.base import Artifact
from kokoro_nb.backends.coreml.coreml_private import mil_types, program_of, scopes
from kokoro_nb.backends.exported import Exported
from kokoro_nb.errors import InputError
from kokoro_nb.patch_registry import with_patches
from kokoro_nb.traces.trace import Operator


@dataclass(frozen=True)
class MixedPrecision:
    """float16, but for some operators.

    Attributes
    ----------
    keep : tuple of str
        The operators that stay float32, each by the name of its first result: that of the saved float32 file.
    """

    keep: tuple[str, ...]

    def as_code(self) -> str:
        """Return the same as Python to paste, for a plain `coremltools.convert` of the exported program."""
        names = "".join(f'    "{name}",\n' for name in self.keep)
        return (
            f"keep_float32 = {{\n{names}}}\n"
            "compute_precision = coremltools.transform.FP16ComputePrecision(\n"
            "    op_selector=lambda op: op.outputs[0].name not in keep_float32\n"
            ")\n"
        )


Precision = Literal["float32"] | MixedPrecision | None


def compute_precision(precision: Precision) -> Any:
    """Return the value for the ``compute_precision`` of `coremltools.convert`; None for its default."""
    import coremltools as ct

    if isinstance(precision, MixedPrecision):
        kept = frozenset(precision.keep)
        return ct.transform.FP16ComputePrecision(op_selector=lambda one: one.outputs[0].name not in kept)
    return ct.precision.FLOAT32 if precision == "float32" else None


Route = Literal["export", "trace", "traced program"]
# casts that coremltools puts in for storage alone: a result is what stands before them
INSERTED = {"add_fp16_cast", "adjust_io_to_supported_types"}


def handed_over(exported: Exported, route: Route, core_operators: bool) -> Any:
    """Return the exported program, its nodes numbered for `places`, or a trace of the module or of the program."""
    if route != "export":
        # a copy, because a trace runs the module, which may keep something
        return _traced(copy.deepcopy(exported.module) if route == "trace" else exported.program.module(), exported)
    program = exported.program.run_decompositions() if core_operators else exported.specification.program
    for number, node in enumerate(program.graph.nodes):
        node.meta["debug_handle"] = number
    return program


def declared_inputs(exported: Exported) -> list[Any]:
    """Return what a trace does not say of its inputs, in the dtypes that Core ML has: float32 and int32."""
    import coremltools as ct

    return [
        ct.TensorType(
            name=spec.name, shape=spec.shape or (1,), dtype=np.int32 if np.dtype(spec.held).kind in "iu" else np.float32
        )
        for spec in exported.inputs
    ]


def places(model: Any, program: Any, exported: Exported, route: Route) -> dict[str, str]:
    """Return the name of the value that holds each operator's result, in a model made of what `handed_over` gave.

    An operator that was fused of several holds the result of the last of them. A value stored in float16 is a result
    all the same. A value that a planted fault goes on to change is no result of the operator.
    """
    made: dict[Any, list[Any]] = {}  # what the operators are called in there -> the values that were made of each
    for operation in program_of(model).functions["main"].operations:
        passes = operation.scopes.get(scopes().COREMLTOOLS_GRAPH_PASS, ())
        origin = _origin(operation, route)
        if operation.op_type != "const" and origin and not (operation.op_type == "cast" and INSERTED & {*passes}):
            made.setdefault(origin, []).extend(operation.outputs)
    names = _called(made, exported, route) if route != "export" else _numbered(made, [*program.graph.nodes], exported)
    operators = {operator.name: operator for operator in exported.specification.operators}
    found: dict[str, str] = {}
    for origin, own in names.items():
        values = [one for one in made[origin] if tuple(one.shape) in {operators[name].shape for name in own if name}]
        values = values[-1:] if len(own) == 1 else values
        pairs = [(name, value.name) for name, value in zip(own, values, strict=False) if name]
        if len(own) > 1:
            alike = {name: [one.name for one in values if _alike(operators[name], one)] for name in own if name}
            if len(values) != len(own) or not all(value in alike[name] for name, value in pairs):
                alone = [several for several in alike.values() if len(several) == 1]
                pairs = [(name, one) for name, several in alike.items() if alone.count(several) == 1 for one in several]
        found |= dict(pairs)
    return found


def _alike(operator: Operator, value: Any) -> bool:
    """Return whether a value may be the result of an operator: of its shape, and a float or none as that is."""
    floating = bool(mil_types().is_float(value.dtype))
    return tuple(value.shape) == operator.shape and floating == ("float" in operator.dtype)


def _origin(operation: Any, route: Route) -> Any:
    """Return the number of the node that an operation was made of; of a trace its module, kind and name."""
    noted, sources = operation.scopes, scopes()
    if route == "export":
        return max((one for one in noted.get(sources.EXIR_DEBUG_HANDLE, ()) if one is not None), default=None)
    *path, name = noted.get(sources.TORCHSCRIPT_MODULE_NAME) or ("",)
    kind = (noted.get(sources.TORCHSCRIPT_MODULE_TYPE) or ("",))[-1]
    return (".".join(path) if route == "trace" else "", kind.strip("_"), name) if name else None


def _numbered(made: Iterable[int], nodes: list[Any], exported: Exported) -> dict[Any, list[str | None]]:
    holders = exported.specification.results(nodes)
    counts = {one: len(value) if isinstance(value := nodes[one].meta.get("val"), list | tuple) else 1 for one in made}
    return {one: exported.specification.sources_of(nodes[one], count, holders) for one, count in counts.items()}


def _called(made: Iterable[Any], exported: Exported, route: Route) -> dict[Any, list[str | None]]:
    """Return the operators of a trace by name: those of one kind in one module, where there are as many as there were.

    Transpositions are left out, which coremltools moves.
    """
    calls: dict[Any, list[Any]] = {}
    for origin in made:
        calls.setdefault(origin[:2], []).append(origin)
    own: dict[Any, list[str | None]] = {}
    for one in exported.specification.operators:
        kind = "convolution" if one.kind.startswith("conv") else one.kind
        own.setdefault((one.module_path if route == "trace" else "", kind), []).append(one.name)
    same = {key: pair for key, origins in calls.items() if len(pair := own.get(key, ())) == len(origins)}
    return {
        origin: [name]
        for key, names in same.items()
        if key[1] != "transpose"
        for origin, name in zip(calls[key], names, strict=True)
    }


def _traced(module: Any, exported: Exported) -> Any:
    """Trace a module on zeros; what it computes cannot hang on them, or `torch.export` would have refused it."""
    import torch

    zeros = [torch.zeros(spec.shape, dtype=getattr(torch, spec.dtype)) for spec in exported.inputs]
    args, kwargs = exported.program.call_spec.in_spec.unflatten(zeros)
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


@dataclass(frozen=True)
class Interface:
    """The features of a saved model.

    Attributes
    ----------
    inputs : dict
        Our name -> name of the feature, and its dtype: Core ML knows float32, float16 and int32.
    outputs : tuple of str
        Names of the features, in the order of our outputs.
    """

    inputs: Mapping[str, tuple[str, str]]
    outputs: tuple[str, ...]

    def to_file(self, arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Return the checked inputs as Core ML takes them: cast without a word, and a scalar with one axis."""
        with np.errstate(over="ignore"):
            return {
                feature: arrays[name].astype(dtype).reshape(arrays[name].shape or (1,))
                for name, (feature, dtype) in self.inputs.items()
            }


def interface(spec: Any, own: Artifact | Exported) -> Interface:
    """Read the interface of a model from its specification, ``coremltools.utils.load_spec(path)``.

    Raises
    ------
    InputError
        If it has not as many inputs and outputs as it was made of.
    """
    inputs, outputs = spec.description.input, spec.description.output
    if (len(inputs), len(outputs)) != (len(own.inputs), len(own.outputs)):
        ours = f"The module has {len(own.inputs)} inputs and {len(own.outputs)} outputs"
        theirs = f"the file that coremltools makes of it {len(inputs)} and {len(outputs)}"
        raise InputError(f"{ours}, and {theirs}.")
    return Interface(
        {one.name: (feature.name, _dtype(feature)) for one, feature in zip(own.inputs, inputs, strict=True)},
        tuple(feature.name for feature in outputs),
    )


def _dtype(feature: Any) -> str:
    array = feature.type.multiArrayType
    return str(array.ArrayDataType.Name(array.dataType)).lower()
