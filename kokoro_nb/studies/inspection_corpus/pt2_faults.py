"""Faults that are planted in a program of `torch.export.save`: it is loaded, changed in one place and saved again."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from kokoro_nb.backends.base import quietly
from kokoro_nb.inspection.formats.pt2_file import Pt2File
from kokoro_nb.studies.inspection_corpus.graph_faults import LOUDER

PLANTED = "planted_"
LARGE = 3e38
NUMBERS = {"negative_slope": 3.0, "eps": None, "alpha": 3.0}
SOFTMAX = ("aten.softmax.int", "aten._softmax.default")


def plant_pt2(healthy: Path, path: Path, kind: str, draw: np.random.Generator) -> str:
    """Write the file with a fault of this kind; return the id of the node that has to be named, or an empty text."""
    import torch

    with quietly():
        program = torch.export.load(str(healthy))
        key = _KINDS[kind](program, draw) if kind in _KINDS else ""
        if not key:
            return ""
        program.graph.lint()
        torch.export.save(program, path)
    return _as_read(path, kind) if key.startswith(PLANTED) else key


def _as_read(path: Path, kind: str) -> str:
    """Return the id that an inserted node has once the file is read, which gives it another name."""
    file = Pt2File.read(path)
    if kind == "overflowing_cast":
        found = [one.name for one in file.operators if one.dtype == "float16"]
    else:
        about = file.exported.specification
        found = [one.name for one in file.operators if "mul" in one.op and LARGE in about.numbers(one.name).values()]
    return file.facts.keys[found[0]]


def _weights(program: Any, draw: np.random.Generator, change: Callable[[Any], None]) -> str:
    import torch

    held = program.graph_signature.inputs_to_parameters
    places = [
        node
        for node in program.graph.nodes
        if node.name in held and len(node.users) == 1 and program.state_dict[held[node.name]].ndim > 1
    ]
    if not places:
        return ""
    node = places[int(draw.integers(len(places)))]
    with torch.no_grad():
        change(program.state_dict[held[node.name]])
    return str(next(iter(node.users)).name)


def _constant(program: Any, draw: np.random.Generator) -> str:
    return _weights(program, draw, lambda weights: weights.mul_(LOUDER))


def _one_channel(program: Any, draw: np.random.Generator) -> str:
    return _weights(program, draw, lambda weights: weights[int(draw.integers(len(weights)))].mul_(-1))


def _attribute(program: Any, draw: np.random.Generator) -> str:
    places = [
        (node, k, one.name)
        for node in _calls(program)
        for k, one in enumerate(node.target._schema.arguments)
        if one.name in NUMBERS and "float" in str(one.type) and k < len(node.args)
    ]
    if not places:
        return ""
    node, place, name = places[int(draw.integers(len(places)))]
    factor = NUMBERS[name]
    node.update_arg(place, 0.5 if factor is None else node.args[place] * factor)
    return str(node.name)


def _axis(program: Any, draw: np.random.Generator) -> str:
    places = [node for node in _calls(program) if str(node.target) in SOFTMAX and node.meta["val"].shape[-2] > 1]
    if not places:
        return ""
    node = places[int(draw.integers(len(places)))]
    node.update_arg(1, -2)
    return str(node.name)


def _inserted(kind: str) -> Callable[[Any, np.random.Generator], str]:
    """Return what puts a few nodes behind a float32 value."""

    def plant(program: Any, draw: np.random.Generator) -> str:
        import torch

        aten = torch.ops.aten
        places = [
            node
            for node in _calls(program)
            if isinstance(node.meta.get("val"), torch.Tensor)
            and node.meta["val"].dtype == torch.float32
            and any(user.op == "call_function" for user in node.users)
        ]
        if not places:
            return ""
        source = places[int(draw.integers(len(places)))]
        readers = [user for user in source.users if user.op == "call_function"]
        last = source

        def call(name: str, target: Any, *args: Any) -> Any:
            nonlocal last
            with program.graph.inserting_after(last):
                last = program.graph.create_node("call_function", target, args, {}, name=f"{PLANTED}{name}")
            last.meta = dict(source.meta)
            values = [one.meta["val"] if hasattr(one, "meta") else one for one in args]
            with source.meta["val"].fake_mode:
                last.meta["val"] = target(*values)
            return last

        size = call("size", aten.abs.default, source)
        if kind == "overflowing_cast":
            up = call("up", aten.add.Tensor, size, 1e6)
            named = call("half", aten.to.dtype, up, torch.float16)
            made = call("down", aten.sub.Tensor, call("back", aten.to.dtype, named, torch.float32), 1e6)
        else:
            top = call("top", aten.add.Tensor, size, LARGE)
            named = call("inf", aten.mul.Tensor, top, LARGE)
            if kind == "masked":
                mask = call("mask", aten.lt.Scalar, named, float("inf"))
                made = call("where", aten.where.self, mask, named, source)
            else:
                made = call("add", aten.add.Tensor, source, call("nan", aten.sub.Tensor, named, named))
        for reader in readers:
            reader.replace_input_with(source, made)
        return str(named.name)

    return plant


def _calls(program: Any) -> list[Any]:
    return [node for node in program.graph.nodes if node.op == "call_function" and hasattr(node.target, "_schema")]


_KINDS: dict[str, Callable[[Any, np.random.Generator], str]] = {
    "constant": _constant,
    "one_channel": _one_channel,
    "attribute": _attribute,
    "axis": _axis,
    **{kind: _inserted(kind) for kind in ("overflowing_cast", "infinity_less_infinity", "masked")},
}
