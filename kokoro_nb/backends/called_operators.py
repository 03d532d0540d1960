"""The calls of operators in an exported program, and what it takes to compute one of them in float64."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

from kokoro_nb.torch_private import schema

OWN = ("aten", "prim")  # namespaces that libtorch brings along, without a line of Python
CHOOSING = ("aten.argmax.", "aten.argmin.", "aten.argsort.", "aten.max.dim", "aten.min.dim", "aten.topk.", "aten.sort.")


def calls(program: Any) -> Iterator[tuple[str, Any]]:
    """Yield name and node of every operator that an `ExportedProgram` calls, those of branches included."""
    for part in program.graph_module.modules():
        for node in getattr(getattr(part, "graph", None), "nodes", ()):
            if schema(node.target) is not None:
                yield str(node.target), node


def arguments_by_name(operator: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of a call by name, in the order of the operator's schema, defaults included.

    Of what has no schema there are none.
    """
    parameters = getattr(schema(operator), "arguments", ())
    given = dict(zip((one.name for one in parameters), args, strict=False)) | {**kwargs}
    return {one.name: given.get(one.name, one.default_value) for one in parameters}


def user_results(program: Any) -> tuple[Any, ...]:
    """Return what an `ExportedProgram` gives its caller: nodes, without the new values of buffers and inputs."""
    from torch.export.graph_signature import OutputKind

    (results,) = program.graph.output_node().args
    specs = program.graph_signature.output_specs
    return tuple(one for one, spec in zip(results, specs, strict=True) if spec.kind == OutputKind.USER_OUTPUT)


def is_element(node: Any) -> bool:
    """Return whether a node takes one of several results of an operator."""
    return getattr(node.target, "__name__", "") == "getitem"


def calling_module(node: Any) -> str:
    """Return the path of the module that a node comes from; empty for the outermost, and where it is not known."""
    stack = list(node.meta.get("nn_module_stack", {}).values())
    return str(stack[-1][0]) if stack else ""


def require_own(program: Any) -> None:
    """Refuse a program with an operator that is not PyTorch's own.

    Such an operator is written into some artefacts as a name, and works only in a process that has registered it.

    Raises
    ------
    RuntimeError
        If there is one; it is named.
    """
    for name, node in calls(program):
        if node.target.namespace not in OWN:
            raise RuntimeError(f"'{name}' is none of PyTorch's own operators; who loads the artefact has not got it.")


def laid_out(tensor: Any, strides: tuple[int, ...]) -> Any:
    """Return the tensor with these strides in memory, elements: a view of it may be possible in that order alone.

    An attention's result, (batch, heads, time, width), is in memory by time first; its transpose is then viewed as
    (batch, time, heads x width), which no array in plain order allows.
    """
    import torch

    known = all(isinstance(one, int) and one > 0 for one in strides)  # neither symbols nor an axis that is repeated
    if not known or len(strides) != tensor.ndim or tensor.stride() == strides or not tensor.numel():
        return tensor
    return torch.empty_strided(tensor.shape, strides, dtype=tensor.dtype).copy_(tensor)


def picks(operator: Any, dtype: str) -> Any:
    """Return an operator as it is called on float64 in place of `dtype`; of `CHOOSING` it takes the places of float32.

    Equal numbers that are computed twice differ in the last bits of float64, which say nothing of what is right. Of
    equals the first is taken: PyTorch leaves open which one `topk` and `sort` take.
    """
    picking = str(operator).startswith(CHOOSING) and dtype in ("float32", "float16", "bfloat16")
    return partial(_picked, operator) if picking else operator


def _picked(operator: Any, /, self: Any, *args: Any, **kwargs: Any) -> Any:
    if "arg" in str(operator):
        return operator(self.float(), *args, **kwargs)
    places = (_first_of_equals if "topk" in str(operator) else operator)(self.float(), *args, **kwargs)[1]
    return operator(self, *args, **kwargs)[0], places


def _first_of_equals(values: Any, k: int, dim: int = -1, largest: bool = True, sorted: bool = True) -> tuple[Any, Any]:
    found, places = values.sort(dim=dim, descending=largest, stable=True)
    return found.narrow(dim, 0, k), places.narrow(dim, 0, k)


@contextmanager
def default_dtype(double: bool) -> Iterator[None]:
    """Have tensors that are made without a dtype, and quotients of integers, be float64 inside, if `double`."""
    import torch

    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64 if double else before)
    try:
        yield
    finally:
        torch.set_default_dtype(before)
