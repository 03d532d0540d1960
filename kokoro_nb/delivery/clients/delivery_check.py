"""Somebody's folder compared with the contract of a client: what deviates, and what one would hear of it."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from kokoro_nb.delivery.clients.client_contract import ClientContract, ContractDeviation, Deviations, Signature
from kokoro_nb.delivery.clients.client_delivery import FILE
from kokoro_nb.delivery.clients.client_folder import ROW_BYTES, symbol_ids, voice_tables
from kokoro_nb.delivery.clients.hosts import OnnxHost
from kokoro_nb.delivery.clients.known_clients import contract
from kokoro_nb.delivery.clients.program_check import check_behaviour, check_level, check_packages, check_pair
from kokoro_nb.delivery.contract import changed_files
from kokoro_nb.errors import InputError, one_line
from kokoro_nb.storage import read_json


def check_files(root: Path, rules: ClientContract, seen: Deviations) -> dict[str, np.ndarray]:
    """Note what deviates in the files alone: which there are, the voices, the checksums; return the voices' tables."""
    for file in rules.files:
        seen.require((root / file).exists(), "file missing", file, "a file", "none")
    tables = _check_voices(root, rules, seen)
    for name in _changed_files(root):
        found = "another" if (root / name).is_file() else "none"
        seen.require(False, "checksum", name, f"the file that {FILE} tells of", found)
    return tables


def _changed_files(root: Path) -> list[str]:
    """Return the files that are not as the folder's own list of checksums says; none where it has no list."""
    try:
        return changed_files(root, read_json(root / FILE, "delivery")["files"])
    except (ValueError, KeyError, TypeError, AttributeError):
        return []  # there is none, or no list of ours


def _check_voices(root: Path, rules: ClientContract, seen: Deviations) -> dict[str, np.ndarray]:
    place, form = rules.voices.path, f"{rules.voices.form}, ({rules.voices.rows}, 256)"
    if not seen.require(any(root.glob(place.format(voice="*"))), "voices missing", place, form, "none"):
        return {}
    try:
        tables = voice_tables(root, rules)
    except (ValueError, OSError, EOFError, KeyError) as error:
        seen.require(False, "voices form", place, form, str(error).splitlines()[0])
        return {}
    for name, table in tables.items():
        where, largest = f"{place} {name}", np.abs(table.astype(np.float64)).max(initial=0)
        rows = rules.voices.rows
        seen.require(len(table) >= rows, "voices rows", where, f"{rows} rows", len(table))
        if seen.require(np.isfinite(largest), "voices not finite", where, "finite numbers", "NaN or infinity"):
            found = f"a largest value of {largest:.3g}"
            seen.require(1e-6 < largest <= 1e3, "voices form", where, "styles of about 0.3", found)
    return tables


def _check_metadata(metadata: dict[str, str], path: str, rules: ClientContract, root: Path, seen: Deviations) -> None:
    for key, value in rules.metadata.items():
        where, held = f"{path} {key}", metadata.get(key, "none")
        if not seen.require(key in metadata, "metadata missing", where, value or "a value", held):
            continue
        rows, _, rest = held.partition(",")
        if key == "style_dim":
            seen.require(rest == "1,256" and rows.isdigit() and int(rows) >= 510, "metadata value", where, value, held)
        elif key in ("sample_rate", "version"):
            seen.same("metadata value", where, value, held)
    voices, rows = root / rules.voices.path, metadata.get("style_dim", "").partition(",")[0]
    if {"n_speakers"} <= rules.metadata.keys() & metadata.keys() and rows.isdigit() and voices.is_file():
        wanted, size = int(rows) * ROW_BYTES * int(metadata["n_speakers"]), voices.stat().st_size
        stated = f"{wanted} bytes as the metadata say"
        seen.require(size in (0, wanted), "voices count", rules.voices.path, stated, size)


def _check_symbols(model: Any, metadata: Mapping[str, str], root: Path, seen: Deviations) -> None:
    where = "the table of symbols"
    try:
        table = symbol_ids(root, metadata)
    except (ValueError, KeyError, TypeError, IndexError, AttributeError) as error:
        seen.require(False, "symbols", where, "a symbol and an id a line", str(error)[:80])
        return
    twice = [f"'{symbol}' {len(numbers)} times" for symbol, numbers in table.items() if len(numbers) > 1]
    seen.require(not twice, "symbols", where, "each symbol once", "".join(twice[:1]))
    numbers = [number for each in table.values() for number in each]
    seen.require(0 not in numbers, "pad", where, "0 for the pad alone", "0 for a symbol")
    beside = [name for name in ("tokens.txt", "tokenizer.json") if (root / name).is_file()]
    if "kokoro_config" in metadata and beside:
        try:
            own = json.loads(metadata["kokoro_config"]).get("vocab", {})
        except ValueError:
            own = {}
        other = [f"not '{symbol}'" for symbol, number in own.items() if table.get(symbol) != [number]]
        wanted = f"{len(own)} symbols as in the model's own table"
        seen.require(not other, "symbols", beside[0], wanted, "".join(other[:1]))
    read = {name for node in model.graph.node if node.op_type == "Gather" for name in node.input[:1]}
    rooms = [one.dims[0] for one in model.graph.initializer if one.name in read and len(one.dims) == 2]
    room, highest = min((room for room in rooms if 100 < room < 512), default=512), max(numbers, default=0)
    seen.require(highest < room or room == 512, "id out of range", where, f"below {room}", highest)


DRAWS = ("RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike", "Bernoulli", "Multinomial")
# What keeps a client from feeding the program, or from hearing what it says
UNFED = ("number of inputs", "input name", "input order", "input dtype", "opset", "output order", "audio dtype")


def check_onnx(root: Path, path: str, signature: Signature, rules: ClientContract, seen: Deviations) -> None:
    """Note what deviates in a program of a folder."""
    import onnx

    try:
        onnx.checker.check_model(str(root / path))
        model = onnx.load(root / path, load_external_data=False)
    except Exception as error:  # protobuf, the checker and the file system each refuse in their own way
        rule = "weights missing" if "should be stored in" in str(error) else "program unreadable"
        seen.require(False, rule, path, "an ONNX file", one_line(error))
        return
    before = len(seen)
    _check_form(model, path, rules, seen)
    _check_signature(model, path, signature, rules, seen)
    metadata = {entry.key: entry.value for entry in model.metadata_props}
    _check_metadata(metadata, path, rules, root, seen)
    _check_symbols(model, metadata, root, seen)
    drawn = [node.op_type for node in model.graph.node if node.op_type in DRAWS]
    kinds = f"{len(drawn)} of {', '.join(sorted(set(drawn)))}"
    seen.require(not drawn, "draws", path, "noise that is in the file", kinds)
    if any(one.rule in UNFED for one in seen[before:]):
        return
    speaker = OnnxHost(root, rules, path)
    if check_behaviour(speaker, path, path, seen, bool(drawn)) is not None:
        check_level(speaker, seen)


def _check_form(model: Any, path: str, rules: ClientContract, seen: Deviations) -> None:
    version, newest = model.ir_version, {one.domain: one.version for one in model.opset_import}.get("", 0)
    seen.require(version <= rules.ir_version, "IR version", path, f"{rules.ir_version} at most", version)
    seen.require(newest <= rules.opset + 4, "opset", path, f"{rules.opset + 4} at most", newest)
    used = {node.domain for node in model.graph.node} - {"", "ai.onnx"}
    seen.require(not used, "foreign operators", path, "ONNX's own", f"operators of {', '.join(sorted(used))}")


def _kind(value: Any) -> tuple[str, tuple[int | str, ...]]:
    """Return dtype and shape of an input or output: a string for an axis that the text decides."""
    from onnx import helper

    tensor = value.type.tensor_type
    shape = tuple(one.dim_value if one.HasField("dim_value") else one.dim_param or "?" for one in tensor.shape.dim)
    return np.dtype(helper.tensor_dtype_to_np_dtype(tensor.elem_type)).name, shape


def _check_signature(model: Any, path: str, signature: Signature, rules: ClientContract, seen: Deviations) -> None:
    inputs, _ = signature
    held = {one.name for one in model.graph.initializer}
    given = {value.name: value for value in model.graph.input if value.name not in held}
    if not seen.same("number of inputs", path, len(inputs), len(given)):
        return
    names, known = [*given], [rule.name for rule in inputs]
    if rules.label == "kokoro-onnx 0.6" and {*names} == {"tokens", *known[1:]}:  # which it takes too
        known[0] = "tokens"
    named, ordered = {*names} == {*known}, names == known
    if not seen.require(named or rules.by_position, "input name", path, ", ".join(known), ", ".join(names)):
        return
    swapped = rules.by_position and named and not ordered
    if not seen.require(not swapped, "input order", path, ", ".join(known), ", ".join(names)):
        return
    for name, rule in zip(names if rules.by_position else known, inputs, strict=True):
        dtype, shape = _kind(given[name])
        kind = "integer speed" if rule.name == "speed" and dtype.startswith("int") else "input dtype"
        seen.same(kind, f"{path} {name}", rule.dtype, dtype)
        seen.require(_suits(shape, rule.shape), "input shape", f"{path} {name}", _shown(rule.shape), _shown(shape))
    _check_outputs(model, path, signature, seen)


def _check_outputs(model: Any, path: str, signature: Signature, seen: Deviations) -> None:
    _, outputs = signature
    given = [value.name for value in model.graph.output]
    first, *others = [_kind(value)[0] for value in model.graph.output] or ["no output"]
    wanted, said = ", ".join(rule.name for rule in outputs), ", ".join(given)
    if first.startswith("int") and any(kind.startswith("float") for kind in others):
        seen.require(False, "output order", path, wanted, said)
    elif seen.same("audio dtype", path, outputs[0].dtype, first) and "duration" in given:
        place = given.index("duration")
        seen.require(place == 1, "output order", path, "duration as the second", f"duration as number {place}")
    seen.require({rule.name for rule in outputs} <= {*given}, "output name", path, wanted, said)


def _suits(shape: tuple[int | str, ...], rule: tuple[int | str, ...]) -> bool:
    """Say whether a program's shape takes what the client feeds: a free axis takes every size."""
    if len(shape) != len(rule):
        return False
    return all(isinstance(own, str) or own == wanted for own, wanted in zip(shape, rule, strict=True))


def _shown(shape: tuple[int | str, ...]) -> str:
    return f"({', '.join(map(str, shape))})"


@dataclass(frozen=True)
class DeliveryCheck:
    """A folder compared with a contract.

    Attributes
    ----------
    client : str
    deviations : tuple of ContractDeviation
        None if the folder keeps the contract.
    notes : tuple of str
        What is no deviation and should be known.
    """

    client: str
    deviations: tuple[ContractDeviation, ...]
    notes: tuple[str, ...] = ()


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
    seen = Deviations()
    tables = check_files(root, rules, seen)
    present = {path: signature for path, signature in rules.programs.items() if (root / path).exists()}
    whole = present and (rules.alternatives or len(present) == len(rules.programs))
    seen.require(whole, "program missing", next(iter(rules.programs)), "a program", "none")
    if rules.form == "ExecuTorch":
        check_pair(root, rules, seen)
    elif rules.form == "Core ML":
        check_packages(root, rules, seen)
    else:
        for path, signature in present.items():
            check_onnx(root, path, signature, rules, seen)
    repeated = [name for name, table in tables.items() if len(table) > 2 and (table[1:] == table[1]).all()]
    said = "has one row, repeated: a client that takes a wrong row sounds right with it."
    return DeliveryCheck(rules.label, tuple(seen), tuple(f"The voice {name} {said}" for name in repeated))
