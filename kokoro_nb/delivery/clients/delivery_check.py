"""Somebody's folder compared with the contract of a client: what deviates, and what one would hear of it."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from kokoro_nb.delivery.clients.beside_check import check_files, check_told, voice_tables
from kokoro_nb.delivery.clients.client_contract import ClientContract, TensorRule
from kokoro_nb.delivery.clients.contract_deviation import ContractDeviation
from kokoro_nb.delivery.clients.delivery_runs import behaviour
from kokoro_nb.delivery.clients.inverse_level import inverse_level
from kokoro_nb.delivery.clients.known_clients import contract
from kokoro_nb.delivery.clients.mlpackage_check import check_packages
from kokoro_nb.delivery.clients.pte_check import check_pair
from kokoro_nb.errors import InputError

DRAWS = ("RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike", "Bernoulli", "Multinomial")


@dataclass(frozen=True)
class DeliveryCheck:
    """A folder compared with a contract.

    Attributes
    ----------
    client : str
    folder : Path
    deviations : tuple of ContractDeviation
        None if the folder keeps the contract.
    notes : tuple of str
        What is no deviation and should be known.
    """

    client: str
    folder: Path
    deviations: tuple[ContractDeviation, ...]
    notes: tuple[str, ...] = ()

    def table(self) -> list[dict[str, str]]:
        """Return a row for each deviation."""
        fields = ("rule", "where", "expected", "found", "consequence")
        return [{name: str(getattr(one, name)) for name in fields} for one in self.deviations]


def check_delivery(folder: str | Path, client: str) -> DeliveryCheck:
    """Compare a folder with the contract of a client.

    Parameters
    ----------
    folder : path
        In the client's layout, whoever made it.
    client : str
        See `known_clients.contract`.

    Raises
    ------
    InputError
        If there is no such folder, or the client is unknown.
    """
    root, rules = Path(folder), contract(client)
    if not root.is_dir():
        raise InputError(f"There is no folder {root}; give one that holds a delivery for {rules.label}.")
    found = list(check_files(root, rules))
    present = {path: signature for path, signature in rules.programs.items() if (root / path).exists()}
    if not present or (len(present) < len(rules.programs) and not rules.alternatives):
        found.append(ContractDeviation("program missing", next(iter(rules.programs)), "a program", "none"))
    if rules.form == "ExecuTorch":
        found += check_pair(root, rules)
    elif rules.form == "Core ML":
        found += check_packages(root, rules)
    else:
        for path, signature in present.items():
            found += _program(root, path, signature, rules)
    return DeliveryCheck(rules.label, root, tuple(found), tuple(_notes(root, rules)))


def _notes(root: Path, rules: ClientContract) -> Iterator[str]:
    try:
        tables = voice_tables(root, rules)
    except (ValueError, OSError, EOFError, KeyError):
        return
    for name, table in tables.items():
        if len(table) > 2 and (table[1:] == table[1]).all():
            yield f"The voice {name} has one row, repeated: a client that takes a wrong row sounds right with it."


def _program(
    root: Path, path: str, signature: tuple[tuple[TensorRule, ...], tuple[TensorRule, ...]], rules: ClientContract
) -> Iterator[ContractDeviation]:
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
    found += _draws_and_level(model, path)
    yield from found
    if not any(one.rule in ("input name", "input order", "number of inputs", "input dtype", "opset") for one in found):
        yield from behaviour(root / path, path, rules, any(one.rule == "draws" for one in found))


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


def _signature(
    model: Any, path: str, signature: tuple[tuple[TensorRule, ...], tuple[TensorRule, ...]], rules: ClientContract
) -> Iterator[ContractDeviation]:
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


def _draws_and_level(model: Any, path: str) -> Iterator[ContractDeviation]:
    drawn = [node.op_type for node in model.graph.node if node.op_type in DRAWS]
    if drawn:
        yield ContractDeviation(
            "draws", path, "noise that is in the file", f"{len(drawn)} of {', '.join(sorted(set(drawn)))}"
        )
    try:
        level = inverse_level(model)
    except Exception as error:  # a runtime's errors; what is wrong then shows when the whole is run
        level = None
        yield ContractDeviation("does not run", f"{path}, its inverse STFT", "audio", str(error).splitlines()[0][:120])
    if level is not None and not level.exact:
        found = f"{level.middle:.2f} of it in bins 1 to 9, {level.ends:.2f} in the first and last"
        yield ContractDeviation("level", path, "the level of torch.istft", found)
