"""Somebody's folder compared with the contract of a client: what deviates, and what one would hear of it."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from kokoro_nb.delivery.clients.client_contract import ClientContract, ContractDeviation, Signature, TensorRule
from kokoro_nb.delivery.clients.client_delivery import FILE
from kokoro_nb.delivery.clients.client_folder import ROW_BYTES, symbol_ids, voice_tables
from kokoro_nb.delivery.clients.hosts import OnnxHost
from kokoro_nb.delivery.clients.known_clients import contract
from kokoro_nb.delivery.clients.signal_check import TEXT, check_behaviour, onnx_level, style_row
from kokoro_nb.delivery.clients.staged_check import check_packages, check_pair
from kokoro_nb.delivery.contract import as_delivered
from kokoro_nb.errors import InputError


def check_files(root: Path, rules: ClientContract) -> Iterator[ContractDeviation]:
    """Yield what deviates in the files alone: which there are, the voices, the checksums."""
    for file in rules.files:
        if not (root / file).exists():
            yield ContractDeviation("file missing", file, "a file", "none")
    yield from _voices(root, rules)
    for name in _changed_files(root):
        found = "another" if (root / name).is_file() else "none"
        yield ContractDeviation("checksum", name, f"the file that {FILE} tells of", found)


def _changed_files(root: Path) -> list[str]:
    """Return the files that are not as the folder's own list of checksums says; none where it has no list."""
    if not (root / FILE).is_file():
        return []
    try:
        files = json.loads((root / FILE).read_text(encoding="utf-8"))["files"]
        return [name for name, said in files.items() if not as_delivered(root, name, said)]
    except (ValueError, KeyError, TypeError, AttributeError):
        return []  # a file of that name that is no list of ours


def _voices(root: Path, rules: ClientContract) -> Iterator[ContractDeviation]:
    place, form = rules.voices.path, f"{rules.voices.form}, ({rules.voices.rows}, 256)"
    if not any(root.glob(place.format(voice="*"))):
        yield ContractDeviation("voices missing", place, form, "none")
        return
    try:
        tables = voice_tables(root, rules)
    except (ValueError, OSError, EOFError, KeyError) as error:
        yield ContractDeviation("voices form", place, form, str(error).splitlines()[0])
        return
    for name, table in tables.items():
        where = f"{place} {name}"
        if len(table) < rules.voices.rows:
            yield ContractDeviation("voices rows", where, f"{rules.voices.rows} rows", f"{len(table)}")
        if not np.isfinite(table.astype(np.float64)).all():
            yield ContractDeviation("voices not finite", where, "finite numbers", "NaN or infinity")
        elif np.abs(table).max() > 1e3 or not np.abs(table).max() > 1e-6:
            yield ContractDeviation(
                "voices form", where, "styles of about 0.3", f"a largest value of {np.abs(table).max():.3g}"
            )


def _metadata(metadata: Mapping[str, str], path: str, rules: ClientContract, root: Path) -> Iterator[ContractDeviation]:
    for key, value in rules.metadata.items():
        if key not in metadata:
            yield ContractDeviation("metadata missing", f"{path} {key}", value or "a value", "none")
        elif key == "style_dim":
            parts = metadata[key].split(",")
            if parts[1:] != ["1", "256"] or not parts[0].isdigit() or int(parts[0]) < 510:
                yield ContractDeviation("metadata value", f"{path} {key}", value, metadata[key])
        elif value and metadata[key] != value and key in ("sample_rate", "version"):
            yield ContractDeviation("metadata value", f"{path} {key}", value, metadata[key])
    if "n_speakers" in rules.metadata and "n_speakers" in metadata:
        size = (root / rules.voices.path).stat().st_size if (root / rules.voices.path).is_file() else 0
        rows = metadata.get("style_dim", "").partition(",")[0]
        wanted = int(rows) * ROW_BYTES * int(metadata["n_speakers"]) if rows.isdigit() else -1
        if size and wanted >= 0 and size != wanted:
            yield ContractDeviation("voices count", rules.voices.path, f"{wanted} bytes as the metadata say", str(size))


def _symbols(model: Any, metadata: Mapping[str, str], root: Path) -> Iterator[ContractDeviation]:
    try:
        table = symbol_ids(root, metadata)
    except (ValueError, KeyError, TypeError, IndexError, AttributeError) as error:
        yield ContractDeviation("symbols", "the table of symbols", "a symbol and an id a line", str(error)[:80])
        return
    twice = [symbol for symbol, numbers in table.items() if len(numbers) > 1]
    if twice:
        yield ContractDeviation(
            "symbols", "the table of symbols", "each symbol once", f"'{twice[0]}' {len(table[twice[0]])} times"
        )
    numbers = [number for each in table.values() for number in each]
    if 0 in numbers:
        yield ContractDeviation("pad", "the table of symbols", "0 for the pad alone", "0 for a symbol")
    beside = [name for name in ("tokens.txt", "tokenizer.json") if (root / name).is_file()]
    if "kokoro_config" in metadata and beside:
        try:
            own = json.loads(metadata["kokoro_config"]).get("vocab", {})
        except ValueError:
            own = {}
        other = [symbol for symbol, number in own.items() if table.get(symbol) != [number]]
        if other:
            yield ContractDeviation(
                "symbols", beside[0], f"{len(own)} symbols as in the model's own table", f"not '{other[0]}'"
            )
    read = {name for node in model.graph.node if node.op_type == "Gather" for name in node.input[:1]}
    rooms = [one.dims[0] for one in model.graph.initializer if one.name in read and len(one.dims) == 2]
    embedded = [room for room in rooms if 100 < room < 512]
    if numbers and embedded and max(numbers) >= min(embedded):
        yield ContractDeviation("id out of range", "the table of symbols", f"below {min(embedded)}", str(max(numbers)))


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
    metadata = {entry.key: entry.value for entry in model.metadata_props}
    found += [*_metadata(metadata, path, rules, root), *_symbols(model, metadata, root)]
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
            found += check_onnx(root, path, signature, rules)
    return DeliveryCheck(rules.label, root, tuple(found), tuple(_notes(root, rules)))


def _notes(root: Path, rules: ClientContract) -> Iterator[str]:
    try:
        tables = voice_tables(root, rules)
    except (ValueError, OSError, EOFError, KeyError):
        return
    for name, table in tables.items():
        if len(table) > 2 and (table[1:] == table[1]).all():
            yield f"The voice {name} has one row, repeated: a client that takes a wrong row sounds right with it."
