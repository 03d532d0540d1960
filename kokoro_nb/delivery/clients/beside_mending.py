"""Files beside the program mended, and what an ONNX program says of them, where the folder itself tells what is right.

What it does not tell stays: rows that a voice lacks, numbers that are not finite, words of a lexicon, a table of
symbols where no file has the model's own, a file that differs from its checksum and keeps the contract.
"""

import json
from collections.abc import Callable, Collection
from pathlib import Path

import numpy as np

from kokoro_nb.delivery.clients import kokoro_js_client, sherpa_onnx_client
from kokoro_nb.delivery.clients.beside_check import changed_files, programs
from kokoro_nb.delivery.clients.client_contract import ClientContract
from kokoro_nb.delivery.clients.client_delivery import FILE
from kokoro_nb.delivery.clients.speech_program import set_metadata
from kokoro_nb.storage import checksum, write_json

MEASURE = "deviations of this kind"
LARGEST = 1e3  # of a style's numbers; above it they are something else
_KINDS = ("<f8", "<f4", "<f2")  # the widest first: what is narrower reads as tiny numbers there
_USUAL = (1e-3, 10.0)  # between which half the numbers of a style lie, or their middle: it is about 0.3


def mend_voices(root: Path, rules: ClientContract) -> str:
    """Store the voices as the client reads them, where they are stored as other floats or with other axes."""
    if rules.voices.form == "npz":
        return _mend_archive(root / rules.voices.path)
    paths = sorted(root.glob(rules.voices.path.format(voice="*")))
    changed = []
    for path in (*paths, *(root / file for file in rules.files if file.endswith(".bin"))):
        kind = stored_as(path, rules)
        if kind not in (None, "<f4"):
            np.fromfile(path, kind).astype("<f4").tofile(path)
            changed.append(f"{path.relative_to(root).as_posix()} from {np.dtype(kind).name}")
    return f"voices stored as float32: {', '.join(changed)}" if changed else ""


def _mend_archive(path: Path) -> str:
    try:
        with np.load(path, allow_pickle=False) as read:
            tables = {name: np.asarray(read[name]) for name in read.files}
    except (ValueError, OSError, EOFError, KeyError, AttributeError):
        return ""
    shapes = {table.shape for table in tables.values() if table.shape[1:] != (1, 256)}
    if not shapes or any(table.dtype.kind != "f" or table.squeeze().shape[1:] != (256,) for table in tables.values()):
        return ""
    whole = {name: table.astype(np.float32).reshape(-1, 1, 256) for name, table in tables.items()}
    with path.open("wb") as stream:
        np.savez(stream, **whole)  # type: ignore[arg-type]  # numpy's stub takes the names for its own arguments
    return f"rows of {' and '.join(map(str, sorted(shapes)))} laid out as (rows, 1, 256)"


def stored_as(path: Path, rules: ClientContract) -> str | None:
    """Return as which floats a raw file of voices is stored: the widest that its size and its numbers fit."""
    raw = path.read_bytes() if path.is_file() else b""
    for kind in _KINDS:
        voice = rules.voices.rows * 256 * np.dtype(kind).itemsize
        whole = len(raw) == voice or (rules.voices.form == "raw of all" and len(raw) % voice == 0)
        if raw and whole and _usual(np.frombuffer(raw, kind)):
            return kind
    return None


def _usual(values: np.ndarray) -> bool:
    if not np.isfinite(values).all() or not values.any() or np.abs(values).max() > LARGEST:
        return False
    return bool(_USUAL[0] < np.median(np.abs(values[values != 0]).astype(np.float64)) < _USUAL[1])


def tell_metadata(root: Path, rules: ClientContract) -> str:
    """Write the metadata that follow from the contract, from the voices' file and from the configuration beside it."""
    import onnx

    told = []
    for name, model in programs(root, rules):
        held = {entry.key: entry.value for entry in model.metadata_props}
        right = {key: value for key, value in rules.metadata.items() if value and key != "style_dim"}
        kept = {key: held[key] for key in ("has_espeak", "voice") if key in held}  # a client takes others, too
        wanted = {**right, **kept, **_sizes(root, rules, held)}
        if not held.get("kokoro_config") and "kokoro_config" in rules.metadata and (config := _config(root)):
            wanted["kokoro_config"] = config
        changed = {key: value for key, value in wanted.items() if held.get(key) != value}
        if changed:
            set_metadata(model, changed)
            onnx.save(model, root / name)
            told += [f"{key} {value if len(value) < 20 else 'as config.json'}" for key, value in changed.items()]
    return f"metadata now {', '.join(told)}" if told else ""


def _sizes(root: Path, rules: ClientContract, held: dict[str, str]) -> dict[str, str]:
    """Return rows and number of speakers as the voices' file has them, if it is one of float32 and they do not fit."""
    path, voice = root / rules.voices.path, rules.voices.rows * 1024
    if "n_speakers" not in rules.metadata or stored_as(path, rules) != "<f4":
        return {}
    return {"style_dim": rules.metadata["style_dim"], "n_speakers": str(path.stat().st_size // voice)}


def _config(root: Path) -> str:
    """Return a ``config.json`` that has a table of symbols, or nothing."""
    try:
        config = json.loads((root / "config.json").read_text(encoding="utf-8"))
        return json.dumps(config, ensure_ascii=False) if config["vocab"] else ""
    except (OSError, ValueError, KeyError, TypeError):
        return ""


def tell_symbols(root: Path, rules: ClientContract) -> str:
    """Write the table of symbols anew, as the model's own metadata have it."""
    right = {name: text for name, text in _told(root, rules).items() if name in ("tokens.txt", "tokenizer.json")}
    return _write(root, {name: text for name, text in right.items() if (root / name).is_file()}, "as the model's own")


def complete_files(root: Path, rules: ClientContract) -> str:
    """Write the files that are missing and follow from others."""
    missing = {name: text for name, text in _told(root, rules).items() if not (root / name).exists()}
    return _write(root, missing, "from the model's metadata")


def _told(root: Path, rules: ClientContract) -> dict[str, str]:
    """Return what has to stand in the files of text that follow from the metadata of a program, by path."""
    for _, model in programs(root, rules):
        held = {entry.key: entry.value for entry in model.metadata_props}
        try:
            config = json.loads(held["kokoro_config"])
            vocab = {str(symbol): int(number) for symbol, number in config["vocab"].items()}
        except (KeyError, ValueError, TypeError, AttributeError):
            continue
        whole = json.dumps(config, ensure_ascii=False, indent=1)
        texts = {"tokens.txt": sherpa_onnx_client.tokens(vocab), "config.json": whole}
        texts |= kokoro_js_client.texts(vocab) if "tokenizer.json" in rules.files else {}
        return {name: text for name, text in texts.items() if name in rules.files}
    return {}


def _write(root: Path, texts: dict[str, str], how: str) -> str:
    changed = []
    for name, text in texts.items():
        if not (root / name).is_file() or (root / name).read_text(encoding="utf-8") != text:
            (root / name).write_text(text, encoding="utf-8")
            changed.append(name)
    return f"{', '.join(changed)} written {how}" if changed else ""


def tell_checksums(root: Path, before: Path) -> str:
    """Write the checksums of those files anew that are not as in the folder `before`."""
    changed = [
        name
        for name in changed_files(root)
        if (root / name).is_file()
        and not ((before / name).is_file() and checksum(before / name) == checksum(root / name))
    ]
    if changed:
        about = json.loads((root / FILE).read_text(encoding="utf-8"))
        about["files"] |= {name: checksum(root / name) for name in changed}
        write_json(root / FILE, about)
    return f"{FILE} tells of {', '.join(changed)} as mended" if changed else ""


MENDS: tuple[tuple[Collection[str], Callable[[Path, ClientContract], str]], ...] = (
    (("voices form", "voices rows", "voices count"), mend_voices),
    (("metadata missing", "metadata value", "voices count"), tell_metadata),
    (("symbols", "pad", "id out of range"), tell_symbols),
    (("file missing",), complete_files),
)  # in this order: the metadata tell of the voices, and the tables follow from the metadata
