"""`torch.export`, the rung that every runtime stands on, and what tells one exported program from another."""

import copy
import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from types import BuiltinFunctionType, FunctionType
from typing import Any

from kokoro_nb.backends import signature
from kokoro_nb.backends.base import Failure, RungError, on_rung, quietly
from kokoro_nb.backends.called_operators import calling_module, user_results
from kokoro_nb.backends.failed_operator import raised_at
from kokoro_nb.backends.specification import Specification
from kokoro_nb.patch_registry import active_patches
from kokoro_nb.storage import digest
from kokoro_nb.torch_private import schema, writes


def snapshot(module: Any, double: bool = False) -> Any:
    """Return a deep copy of `module` in evaluation mode; `module` is left as it is.

    Parameters
    ----------
    module : torch.nn.Module
        Any module; weights that old-style `weight_norm` computed are copied too, which `copy.deepcopy` alone refuses.
    double : bool
        Convert every float tensor to float64: parameters, buffers, and attributes that are neither.
    """
    import torch

    computed = (t for part in module.modules() for t in tensors_in(vars(part)) if not t.is_leaf)
    twin = copy.deepcopy(module, {id(tensor): tensor.detach().clone() for tensor in computed})
    twin.eval()
    if double:
        twin.double()
        for part in twin.modules():
            for name, value in list(vars(part).items()):
                if isinstance(value, torch.Tensor) and value.is_floating_point():
                    setattr(part, name, value.double())
    return twin


State = Mapping[str, tuple[Any, int]]


def state(module: Any) -> State:
    """Return every parameter and buffer of `module` with its version, the number of times it was written in place."""
    tensors = {**dict(module.named_parameters()), **dict(module.named_buffers())}
    return {name: (tensor, writes(tensor)) for name, tensor in tensors.items()}


def wrote(before: State, after: State) -> bool:
    """Return whether a tensor of `after` is not the one of `before`, or was written since: the module keeps state."""
    return any(
        name not in before or before[name][0] is not tensor or before[name][1] != version
        for name, (tensor, version) in after.items()
    )


def tensors_in(value: Any) -> Iterator[Any]:
    """Yield the tensors in a value: itself, or those in mappings, lists and tuples, one in another."""
    import torch

    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from tensors_in(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from tensors_in(item)


@dataclass(frozen=True)
class Exported:
    """A module as `torch.export` sees it; a snapshot: what happens to the module later does not reach it.

    Any backend takes one in place of the module, so that several can share the work.

    Attributes
    ----------
    module : torch.nn.Module
        Copy of the module, in evaluation mode.
    program : torch.export.ExportedProgram
        The exported program.
    inputs : tuple of TensorSpec
        In the order of the forward's parameters.
    outputs : tuple of str
        Names, in order.
    patches : tuple of str
        Names of the class-level patches that were on.
    seconds : float
        Wall time of `torch.export`.
    named_by : Specification or None
        Of the program that this one was changed from, which names its operators; None for a program of its own.
    functional : torch.export.ExportedProgram or None
        The program without writes in place, where it is known already; None where `specification` is to make it.
    supplied : tuple of str
        What this package changed in the program for a runtime that lacks it, by name.
    training : tuple of str
        The parts of the module that were in training mode and ask for it; the module itself has an empty name.
    """

    module: Any
    program: Any
    inputs: tuple[signature.TensorSpec, ...]
    outputs: tuple[str, ...]
    patches: tuple[str, ...]
    seconds: float
    named_by: Specification | None = None
    functional: Any = None
    supplied: tuple[str, ...] = ()
    training: tuple[str, ...] = ()

    @cached_property
    def specification(self) -> Specification:
        """The program's operators by name, and what each computes."""
        with quietly():
            program = self.functional or self.program.run_decompositions({})
        return Specification(program, tuple(spec.name for spec in self.inputs), self.outputs, self.named_by)

    @cached_property
    def content(self) -> str:
        """SHA-256 of all that decides what the program computes, see `content`, and how its operators are called."""
        modules = ",".join(calling_module(node) for node in self.program.graph.nodes)
        return digest(content(self.program), *map(str, self.inputs), *self.outputs, modules)


def export_program(
    module: Any, inputs: signature.Arrays, dynamic_shapes: Mapping[str, Any] | None = None
) -> Exported | Failure:
    """Export `module` with `torch.export` for inputs of these shapes.

    Parameters
    ----------
    module : torch.nn.Module or torch.export.ExportedProgram
        Any module; exported in evaluation mode and without gradients, from a copy. A program that is exported already
        is taken as it is.
    inputs : mapping
        Name of a parameter of its forward -> example tensor.
    dynamic_shapes : mapping, optional
        Name of an input -> its axes of open size, as `torch.export.export` takes them.

    Returns
    -------
    Exported or Failure
        The failure's rung is ``patched`` where the module cannot be copied, else ``exported``.

    Raises
    ------
    InputError
        If the inputs do not fit the module.
    """
    import torch

    if isinstance(module, torch.export.ExportedProgram):
        return _given(module, inputs)
    arrays = signature.example_inputs(module, inputs)
    expected = signature.specs({name: inputs[name] for name in arrays})
    seconds: dict[str, float] = {}
    try:
        with on_rung("patched"):
            twin = snapshot(module)
            # an export leaves its stand-ins for tensors where the forward keeps any: in a list of a Python object
            kept = copy.deepcopy(twin, {id(tensor): tensor for tensor in (*twin.parameters(), *twin.buffers())})
        with on_rung("exported", seconds), quietly(), torch.no_grad():
            args, kwargs = signature.call_arguments(twin, signature.as_tensors(arrays, expected))
            shapes = None if dynamic_shapes is None else {name: dynamic_shapes.get(name) for name in arrays}
            program = torch.export.export(twin, args, kwargs, dynamic_shapes=shapes)
        with on_rung("exported"), quietly():  # where a tensor that is no buffer is written to, it stops here
            writing = [node for node in program.graph.nodes if getattr(schema(node.target), "is_mutable", False)]
            functional = program.run_decompositions({}) if program.constants and writing else None
    except RungError as error:
        return replace(error.failure("torch.export"), source=raised_at(error.__cause__))
    outputs = signature.named_outputs(_outputs(program), getattr(module, "output_names", None))
    patches, took = active_patches(), seconds["exported"]
    known = zip(expected, user_inputs(program).values(), strict=True)
    opened = tuple(replace(spec, open=signature.open_axes(one.shape)) for spec, one in known)
    modes = tuple(name for name, part in module.named_modules() if part.training and _asks_for_mode(part))
    return Exported(kept, program, opened, tuple(outputs), patches, took, functional=functional, training=modes)


def _asks_for_mode(part: Any) -> bool:
    """Return whether the forward of a module looks at its ``training``."""
    return "training" in getattr(getattr(part.forward, "__code__", None), "co_names", ())


def user_inputs(program: Any) -> dict[str, Any]:
    """Return the stand-in of each tensor that a caller gives, by the name of its node, in order."""
    nodes = {node.name: node for node in program.graph.nodes if node.op == "placeholder"}
    names = program.graph_signature.user_inputs
    return {name: nodes[name].meta["val"] for name in names if isinstance(name, str)}


def _given(program: Any, inputs: signature.Arrays) -> Exported:
    """Return a program that somebody else exported, its inputs by the names of `inputs`, or of its own."""
    expected = tuple(signature.spec_of(name, one) for name, one in user_inputs(program).items())
    signature.checked(inputs, expected)
    return Exported(program.module(), program, expected, tuple(signature.named_outputs(_outputs(program))), (), 0.0)


def as_exported(
    module: Any, inputs: signature.Arrays, backend: str, dynamic_shapes: Mapping[str, Any] | None = None
) -> Exported | Failure:
    """Return `module` exported: as it is if it is an `Exported` already, for which `inputs` are checked.

    A `Failure` comes back under the name of `backend`.
    """
    if isinstance(module, Exported):
        signature.checked(inputs, module.inputs)
        return module
    result = module if isinstance(module, Failure) else export_program(module, inputs, dynamic_shapes)
    return replace(result, backend=backend) if isinstance(result, Failure) else result


def content(program: Any) -> str:
    """Return the SHA-256 of all that decides what an `ExportedProgram` computes, and of nothing else.

    That is its graph (operators, arguments, shapes; not the source lines, which hold paths of this machine), its
    signature, and dtype, shape, strides and bytes of every tensor in it.
    """
    import torch

    total = hashlib.sha256(usedforsecurity=False)
    for line in _graph_lines(program.graph_module):
        total.update(line.encode() + b"\n")
    total.update(f"{program.graph_signature}\n{program.call_spec}\n{program.range_constraints}\n".encode())
    for name, tensor in sorted({**program.state_dict, **program.constants}.items()):
        if isinstance(tensor, torch.Tensor):
            total.update(f"{name} {tensor.dtype} {tuple(tensor.shape)} {tensor.stride()}\n".encode())
            total.update(tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().data)
    return total.hexdigest()


def _graph_lines(graph_module: Any) -> Iterator[str]:
    """Write the graph out, those of branches included."""
    for path, part in graph_module.named_modules():
        for node in getattr(getattr(part, "graph", None), "nodes", ()):
            value = node.meta.get("val")
            kind = (str(value.dtype), tuple(value.shape), value.stride()) if hasattr(value, "stride") else str(value)
            yield f"{path} {node.op} {node.name} {_target(node.target)} {node.args!r} {node.kwargs!r} {kind}"


def _target(target: Any) -> str:
    """Name what a node calls; the default text of a plain function holds its address."""
    plain = isinstance(target, FunctionType | BuiltinFunctionType)
    return f"{target.__module__}.{target.__qualname__}" if plain else str(target)


def _outputs(program: Any) -> Any:
    """Return what the forward returned, with a stand-in for each tensor."""
    leaves = [getattr(result, "meta", {}).get("val", result) for result in user_results(program)]
    return program.call_spec.out_spec.unflatten(leaves)


def output_specs(exported: Exported) -> tuple[signature.TensorSpec, ...]:
    """Return name, shape and dtype of each output, from the graph of the exported program."""
    values = [result.meta["val"] for result in user_results(exported.program)]
    return tuple(signature.spec_of(name, value) for name, value in zip(exported.outputs, values, strict=True))
