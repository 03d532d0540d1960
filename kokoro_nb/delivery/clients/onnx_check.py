"""An ONNX program compared with a client's contract: what it declares, and what it does when it is run."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from kokoro_nb.delivery.clients.behaviour import TEXT, check_behaviour, style_row
from kokoro_nb.delivery.clients.client_contract import ClientContract, Signature, TensorRule
from kokoro_nb.delivery.clients.contract_deviation import ContractDeviation
from kokoro_nb.delivery.clients.folder_check import check_told
from kokoro_nb.delivery.clients.hosts import OnnxHost
from kokoro_nb.delivery.clients.signal_check import onnx_level

DRAWS = ("RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike", "Bernoulli", "Multinomial")
# What keeps a client from feeding the program, or from hearing what it says
UNFED = ("number of inputs", "input name", "input order", "input dtype", "opset", "output order", "audio dtype")


def check_onnx(root: Path, path: str, signature: Signature, rules: ClientContract) -> Iterator[ContractDeviation]:
    """Yield what deviates in a program of a folder."""
    import onnx

    try:
        model = onnx.load(root / path, load_external_data=False)
        onnx.checker.check_model(model)
    except Exception as error:  # protobuf, the checker and the file system each refuse in their own way
        external = "external" in str(error).lower() or ("data" in str(error) and "not" in str(error))
        rule = "weights missing" if external and "Should be stored" in str(error) else "program unreadable"
        yield ContractDeviation(rule, path, "an ONNX file", str(error).splitlines()[0][:120])
        return
    missing = [name for name in _external(model) if not (root / path).parent.joinpath(name).is_file()]
    if missing:
        yield ContractDeviation("weights missing", path, "files beside it", f"no {missing[0]}")
        return
    found = [*_form(model, path, rules), *_signature(model, path, signature, rules)]
    found += check_told(model, path, rules, root)
    drawn = [node.op_type for node in model.graph.node if node.op_type in DRAWS]
    if drawn:
        kinds = f"{len(drawn)} of {', '.join(sorted(set(drawn)))}"
        found.append(ContractDeviation("draws", path, "noise that is in the file", kinds))
    yield from found
    if any(one.rule in UNFED for one in found):
        return
    speaker = OnnxHost(root, rules, path)
    noticed, said = check_behaviour(speaker, path, path, bool(drawn))
    yield from noticed
    level = None if said is None else onnx_level(root / path, speaker.given(TEXT, style_row()))
    yield from () if level is None else level.deviation(path)


def _external(model: Any) -> set[str]:
    return {entry.value for one in model.graph.initializer for entry in one.external_data if entry.key == "location"}


def _form(model: Any, path: str, rules: ClientContract) -> Iterator[ContractDeviation]:
    if model.ir_version > rules.ir_version:
        yield ContractDeviation("IR version", path, f"{rules.ir_version} at most", str(model.ir_version))
    versions = {one.domain: one.version for one in model.opset_import}
    if versions.get("", 0) > rules.opset + 4:
        yield ContractDeviation("opset", path, f"{rules.opset + 4} at most", str(versions[""]))
    used = {node.domain for node in model.graph.node} - {"", "ai.onnx"}
    if used:
        yield ContractDeviation("foreign operators", path, "ONNX's own", f"operators of {', '.join(sorted(used))}")


def _kind(value: Any) -> tuple[str, tuple[int | str, ...]]:
    """Return dtype and shape of an input or output: a string for an axis that the text decides."""
    from onnx import helper

    tensor = value.type.tensor_type
    shape = tuple(one.dim_value if one.HasField("dim_value") else one.dim_param or "?" for one in tensor.shape.dim)
    return np.dtype(helper.tensor_dtype_to_np_dtype(tensor.elem_type)).name, shape


def _signature(model: Any, path: str, signature: Signature, rules: ClientContract) -> Iterator[ContractDeviation]:
    inputs, outputs = signature
    held = {one.name for one in model.graph.initializer}
    given = [value for value in model.graph.input if value.name not in held]
    if len(given) != len(inputs):
        yield ContractDeviation("number of inputs", path, str(len(inputs)), str(len(given)))
        return
    names = [value.name for value in given]
    if not rules.by_position and set(names) != {rule.name for rule in inputs}:
        if {"tokens", "style", "speed"} == set(names) and rules.client == "kokoro-onnx" and rules.versions == "0.6":
            inputs = (TensorRule("tokens", *(inputs[0].dtype, inputs[0].shape)), *inputs[1:])
        else:
            yield ContractDeviation("input name", path, ", ".join(rule.name for rule in inputs), ", ".join(names))
            return
    by_name = {value.name: value for value in given}
    known = [rule.name for rule in inputs]
    if rules.by_position and set(names) == set(known) and names != known:
        yield ContractDeviation("input order", path, ", ".join(known), ", ".join(names))
        return
    for position, rule in enumerate(inputs):
        value = given[position] if rules.by_position else by_name[rule.name]
        dtype, shape = _kind(value)
        if dtype != rule.dtype:
            kind = "integer speed" if position == 2 and dtype.startswith("int") else "input dtype"
            yield ContractDeviation(kind, f"{path} {value.name}", rule.dtype, dtype)
        if not _suits(shape, rule.shape):
            yield ContractDeviation("input shape", f"{path} {value.name}", _shown(rule.shape), _shown(shape))
    yield from _outputs(model, path, outputs)


def _outputs(model: Any, path: str, outputs: tuple[TensorRule, ...]) -> Iterator[ContractDeviation]:
    given = [value.name for value in model.graph.output]
    kinds = [_kind(value)[0] for value in model.graph.output]
    if kinds and kinds[0].startswith("int") and any(kind.startswith("float") for kind in kinds):
        yield ContractDeviation("output order", path, ", ".join(rule.name for rule in outputs), ", ".join(given))
    elif not given or kinds[0] != outputs[0].dtype:
        yield ContractDeviation("audio dtype", path, outputs[0].dtype, kinds[0] if kinds else "no output")
    elif "duration" in given and given.index("duration") != 1:
        yield ContractDeviation(
            "output order", path, "duration as the second", f"duration as number {given.index('duration')}"
        )
    if outputs[0].name not in given or outputs[1].name not in given:
        yield ContractDeviation("output name", path, ", ".join(rule.name for rule in outputs), ", ".join(given))


def _suits(shape: tuple[int | str, ...], rule: tuple[int | str, ...]) -> bool:
    """Say whether a program's shape takes what the client feeds: a free axis takes every size."""
    if len(shape) != len(rule):
        return False
    return all(isinstance(own, str) or own == wanted for own, wanted in zip(shape, rule, strict=True))


def _shown(shape: tuple[int | str, ...]) -> str:
    return f"({', '.join(map(str, shape))})"
