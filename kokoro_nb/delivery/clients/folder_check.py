"""What lies beside the program of a folder, and what the program says of it, compared with a client's contract."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from kokoro_nb.delivery.clients.client_contract import ClientContract
from kokoro_nb.delivery.clients.client_delivery import FILE, as_delivered
from kokoro_nb.delivery.clients.client_folder import ROW_BYTES, symbol_ids, voice_tables
from kokoro_nb.delivery.clients.contract_deviation import ContractDeviation


def check_files(root: Path, rules: ClientContract) -> Iterator[ContractDeviation]:
    """Yield what deviates in the files alone: which there are, the voices, the checksums."""
    for file in rules.files:
        if not (root / file).exists():
            yield ContractDeviation("file missing", file, "a file", "none")
    yield from _voices(root, rules)
    for name in _changed_files(root):
        found = "another" if (root / name).is_file() else "none"
        yield ContractDeviation("checksum", name, f"the file that {FILE} tells of", found)


def check_told(model: Any, path: str, rules: ClientContract, root: Path) -> Iterator[ContractDeviation]:
    """Yield what deviates in the metadata of an ONNX program, and in the table of symbols beside it."""
    metadata = {entry.key: entry.value for entry in model.metadata_props}
    yield from _metadata(metadata, path, rules, root)
    yield from _symbols(model, metadata, path, rules, root)


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


def _symbols(
    model: Any, metadata: Mapping[str, str], path: str, rules: ClientContract, root: Path
) -> Iterator[ContractDeviation]:
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
