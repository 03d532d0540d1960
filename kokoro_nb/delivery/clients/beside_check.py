"""What lies beside the program of a folder, and what the program says of it, compared with a client's contract."""

import json
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
from google.protobuf.message import DecodeError

from kokoro_nb.delivery.clients.client_contract import ClientContract
from kokoro_nb.delivery.clients.client_delivery import FILE, as_delivered
from kokoro_nb.delivery.clients.contract_deviation import ContractDeviation


def check_beside(root: Path, rules: ClientContract) -> Iterator[ContractDeviation]:
    """Yield what deviates in the files beside the programs, and in what ONNX programs say of those files."""
    yield from check_files(root, rules)
    for path, model in programs(root, rules):
        yield from check_told(model, path, rules, root)


def programs(root: Path, rules: ClientContract) -> Iterator[tuple[str, Any]]:
    """Yield path and model of each ONNX program of a folder that can be read, weights in other files left there."""
    import onnx

    for path in rules.programs if rules.form == "ONNX" else ():
        with suppress(OSError, DecodeError):  # which other checks name
            yield path, onnx.load(root / path, load_external_data=False)


def check_files(root: Path, rules: ClientContract) -> Iterator[ContractDeviation]:
    """Yield what deviates in the files alone: which there are, the voices, the checksums."""
    yield from _files(root, rules)
    yield from _voices(root, rules)
    for name in changed_files(root):
        found = "another" if (root / name).is_file() else "none"
        yield ContractDeviation("checksum", name, f"the file that {FILE} tells of", found)


def check_told(model: Any, path: str, rules: ClientContract, root: Path) -> Iterator[ContractDeviation]:
    """Yield what deviates in the metadata of an ONNX program, and in the table of symbols beside it."""
    metadata = {entry.key: entry.value for entry in model.metadata_props}
    yield from _metadata(metadata, path, rules, root)
    yield from _symbols(model, metadata, path, rules, root)


def changed_files(root: Path) -> list[str]:
    """Return the files that are not as the folder's own list of checksums says; none where it has no list."""
    if not (root / FILE).is_file():
        return []
    try:
        files = json.loads((root / FILE).read_text(encoding="utf-8"))["files"]
        return [name for name, said in files.items() if not as_delivered(root, name, said)]
    except (ValueError, KeyError, TypeError, AttributeError):
        return []  # a file of that name that is no list of ours


def _files(root: Path, rules: ClientContract) -> Iterator[ContractDeviation]:
    for file in rules.files:
        if not (root / file).exists():
            yield ContractDeviation("file missing", file, "a file", "none")


def symbols_of(root: Path, rules: ClientContract, metadata: Mapping[str, str]) -> dict[str, list[int]]:
    """Return symbol -> its ids, as the client reads them out of the folder; none where it has no table.

    Raises
    ------
    ValueError
        If a line of the table is none.
    """
    found: dict[str, list[int]] = {}
    if (root / "tokens.txt").is_file():
        for line in (root / "tokens.txt").read_text(encoding="utf-8").splitlines():
            parts = line.split()
            found.setdefault(" " if len(parts) == 1 else parts[0], []).append(int(parts[-1]))
        return found
    if (root / "tokenizer.json").is_file():
        vocab = json.loads((root / "tokenizer.json").read_text(encoding="utf-8"))["model"]["vocab"]
        return {symbol: [number] for symbol, number in vocab.items() if symbol != "$"}
    config = metadata.get("kokoro_config") or "{}"
    return {symbol: [number] for symbol, number in json.loads(config).get("vocab", {}).items()}


def voice_tables(root: Path, rules: ClientContract) -> dict[str, np.ndarray]:
    """Return the voices of a folder, (rows, 256) float32 each, as the client reads them.

    Raises
    ------
    ValueError
        If a file has another form.
    """
    if rules.voices.form == "npz":
        with np.load(root / rules.voices.path, allow_pickle=False) as read:
            tables = {name: np.asarray(read[name]) for name in read.files}
        wrong = [name for name, table in tables.items() if table.ndim != 3 or table.shape[1:] != (1, 256)]
        if wrong:
            raise ValueError(f"{wrong[0]} has the shape {tables[wrong[0]].shape}")
        return {name: table[:, 0] for name, table in tables.items()}
    pattern = rules.voices.path.format(voice="*")
    files = {path.stem: path.read_bytes() for path in sorted(root.glob(pattern))}
    whole = rules.voices.rows * 1024
    if rules.voices.form == "raw of all":
        (raw,) = files.values()
        if len(raw) % whole:
            raise ValueError(f"{len(raw)} bytes, which is no multiple of {whole}")
        return {str(at): _rows(raw[at * whole :][:whole]) for at in range(len(raw) // whole)}
    wrong = [name for name, raw in files.items() if len(raw) % 1024]
    if wrong:
        raise ValueError(f"{wrong[0]} has {len(files[wrong[0]])} bytes, which is no multiple of 1024")
    return {name: _rows(raw) for name, raw in files.items()}


def _rows(raw: bytes) -> np.ndarray:
    return np.frombuffer(raw, "<f4").reshape(-1, 256)


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
        wanted = int(rows) * 1024 * int(metadata["n_speakers"]) if rows.isdigit() else -1
        if size and wanted >= 0 and size != wanted:
            yield ContractDeviation("voices count", rules.voices.path, f"{wanted} bytes as the metadata say", str(size))


def _symbols(
    model: Any, metadata: Mapping[str, str], path: str, rules: ClientContract, root: Path
) -> Iterator[ContractDeviation]:
    try:
        table = symbols_of(root, rules, metadata)
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
