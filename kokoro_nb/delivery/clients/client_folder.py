"""A folder in a client's layout: written from a program, voices and symbols, and read again as the client reads it."""

import json
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from kokoro_nb.delivery.clients.client_contract import ClientContract, Dtype
from kokoro_nb.delivery.clients.exported_programs import finish
from kokoro_nb.delivery.clients.known_clients import COREML_VOCAB, FIRST_VOICE, FLUIDAUDIO_VOCAB, JS_FILES, SOURCE
from kokoro_nb.errors import InputError
from kokoro_nb.models.architecture import full_config
from kokoro_nb.models.phonemes import phonemise

ROW_BYTES = 4 * 256  # of a style


@dataclass(frozen=True)
class Material:
    """What a client's folder is made of.

    Attributes
    ----------
    source : Path
        The ONNX file as it was exported, in float32; for clients of another form, the folder of their programs.
    config : mapping
        What clients read of a ``config.json``; its ``vocab`` is symbol -> id.
    voices : mapping
        Name -> table, (510, 256) float32, row i for i + 1 phonemes.
    dtype : str
        How the weights are stored.
    words : tuple of str
        Those of the lexicon, where the client reads one.
    programs : tuple of str
        Of a folder of programs those that are delivered; all of the contract's by default.
    """

    source: Path
    config: Mapping[str, Any]
    voices: Mapping[str, np.ndarray]
    dtype: Dtype
    words: tuple[str, ...]
    programs: tuple[str, ...] = ()

    def table(self, name: str, contract: ClientContract) -> np.ndarray:
        """Return the rows of a voice, (rows, 256) float32, so that the client says what PyTorch says.

        The row that the client takes for n ids holds the style for n phonemes, wherever that row is.
        """
        own, rows = self.voices[name], contract.voices.rows
        placed = np.repeat(own[:1], rows, axis=0)
        for count in range(1, len(own) + 1):
            placed[contract.row.of(count, count, rows)] = own[count - 1]
        return placed


def write_client(material: Material, rules: ClientContract, folder: Path) -> None:
    """Make a folder in the client's layout."""
    folder.mkdir(parents=True)
    if rules.form == "ONNX":
        _write_onnx(material, rules, folder)
    else:
        for name in material.programs or rules.programs:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            copy = shutil.copytree if (material.source / name).is_dir() else shutil.copyfile
            copy(material.source / name, folder / name)
    _write_voices(material, rules, folder)
    for file in rules.files:
        if file == "espeak-ng-data":
            import espeakng_loader

            shutil.copytree(espeakng_loader.get_data_path(), folder / file)
        elif file == FIRST_VOICE:
            first = rules.voices.path.format(voice=next(iter(material.voices)))
            shutil.copyfile(folder / first, folder / file)
        else:
            (folder / file).parent.mkdir(exist_ok=True)
            (folder / file).write_text(_text(file, material, rules), encoding="utf-8")


def _write_onnx(material: Material, rules: ClientContract, folder: Path) -> None:
    """Write the one program; a client with a file for each dtype asks for it by its name."""
    name = f"onnx/{JS_FILES[material.dtype]}" if rules.alternatives else next(iter(rules.programs))
    metadata = {**rules.metadata, "n_speakers": str(len(material.voices)), "speaker_names": ",".join(material.voices)}
    (folder / name).parent.mkdir(exist_ok=True)
    shutil.copyfile(material.source, folder / name)
    finish(folder / name, material.dtype, rules.programs[name][0], metadata, material.config)


def _write_voices(material: Material, rules: ClientContract, folder: Path) -> None:
    """Write the voices: an archive, or float32, little endian, row after row in one file or in one for each."""
    tables = {name: material.table(name, rules) for name in material.voices}
    if rules.voices.form == "npz":
        arrays: dict[str, Any] = {name: table[:, None] for name, table in tables.items()}
        np.savez(folder / rules.voices.path, **arrays)
        return
    for name, table in tables.items():
        place = folder / rules.voices.path.format(voice=name)
        place.parent.mkdir(exist_ok=True)
        with place.open("ab") as stream:  # one file has all of them where its path names none
            table.astype("<f4").tofile(stream)


def _text(file: str, material: Material, rules: ClientContract) -> str:
    """Return what stands in a file of text."""
    vocab: Mapping[str, int] = material.config["vocab"]
    if file == "lexicon.txt":
        return _lexicon(material)
    if file == "tokens.txt":
        return "".join(f"{symbol} {number}\n" for symbol, number in vocab.items())
    marks = {"pad_token": "$", "unk_token": "$"}
    contents: dict[str, Any] = {
        "config.json": {"model_type": "style_text_to_speech_2"} if rules.client == "kokoro.js" else material.config,
        "tokenizer.json": _tokenizer(vocab),
        "tokenizer_config.json": {"model_max_length": 512, **marks, "tokenizer_class": "PreTrainedTokenizer"},
        FLUIDAUDIO_VOCAB: vocab,
        COREML_VOCAB: {"vocab": vocab},
        SOURCE: material.config.get("source"),
    }
    return json.dumps(contents[file], ensure_ascii=False, indent=1)


def _tokenizer(symbols: Mapping[str, int]) -> dict[str, Any]:
    """Return kokoro.js's: each character an id, what the vocabulary lacks removed, a pad at both ends."""
    vocab = {"$": 0, **symbols}
    inside = "".join(f"\\{symbol}" if symbol in "\\]^-" else symbol for symbol in vocab)
    pad = {"SpecialToken": {"id": "$", "type_id": 0}}
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [],
        "normalizer": {"type": "Replace", "pattern": {"Regex": f"[^{inside}]"}, "content": ""},
        "pre_tokenizer": {"type": "Split", "pattern": {"Regex": ""}, "behavior": "Isolated", "invert": False},
        "post_processor": {
            "type": "TemplateProcessing",
            "single": [pad, {"Sequence": {"id": "A", "type_id": 0}}, pad],
            "special_tokens": {"$": {"id": "$", "ids": [0], "tokens": ["$"]}},
        },
        "decoder": None,
        "model": {"vocab": vocab},
    }


def _lexicon(material: Material) -> str:
    """Return a line for each word of the delivery: the word and its phonemes, as espeak gives them."""
    lines, vocab = [], material.config["vocab"]
    for word in material.words:
        symbols = [symbol for symbol in phonemise(word, "espeak")[0] if symbol in vocab and symbol != " "]
        if not symbols:
            raise InputError(f"The word '{word}' has no phoneme in the vocabulary; leave it out of the list of words.")
        lines.append(f"{word.lower()} {' '.join(symbols)}\n")
    return "".join(lines)


def symbol_ids(root: Path, metadata: Mapping[str, str] | None = None) -> dict[str, list[int]]:
    """Return symbol -> its ids, as the client reads them out of a folder; more than one where a symbol stands twice.

    Parameters
    ----------
    root : Path
    metadata : mapping, optional
        Of the folder's program, which comes before a ``config.json``.

    Raises
    ------
    ValueError, LookupError, TypeError, AttributeError
        If a file or a line is no table.
    """
    if (root / "tokens.txt").is_file():
        found: dict[str, list[int]] = {}
        for line in (root / "tokens.txt").read_text(encoding="utf-8").splitlines():
            parts = line.split()
            found.setdefault(" " if len(parts) == 1 else parts[0], []).append(int(parts[-1]))
        return found
    read: Any = full_config()  # which a client without a table holds itself
    if (root / "tokenizer.json").is_file():
        read = json.loads((root / "tokenizer.json").read_text(encoding="utf-8"))["model"]
    elif metadata and metadata.get("kokoro_config"):
        read = json.loads(metadata["kokoro_config"])
    elif (root / FLUIDAUDIO_VOCAB).is_file():
        read = {"vocab": json.loads((root / FLUIDAUDIO_VOCAB).read_text(encoding="utf-8"))}
    else:
        for file in (COREML_VOCAB, "config.json"):
            if (root / file).is_file():
                read = json.loads((root / file).read_text(encoding="utf-8"))
    return {symbol: [number] for symbol, number in read.get("vocab", {}).items() if symbol != "$"}


def vocabulary(folder: str | Path) -> dict[str, int]:
    """Return symbol -> id as a folder carries it, whichever client it is for.

    Raises
    ------
    InputError
        If its table of symbols cannot be read.
    """
    try:
        return {symbol: numbers[0] for symbol, numbers in symbol_ids(Path(folder)).items()}
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        raise InputError(f"The table of symbols in {folder} cannot be read ({error}); deliver it again.") from error


def voice_tables(root: Path, rules: ClientContract) -> dict[str, np.ndarray]:
    """Return the voices of a folder, (rows, 256) float32 each, as the client reads them: by name, or by number.

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
    files = {path.stem: path.read_bytes() for path in sorted(root.glob(rules.voices.path.format(voice="*")))}
    whole = rules.voices.rows * ROW_BYTES if rules.voices.form == "raw of all" else ROW_BYTES
    wrong = [name for name, raw in files.items() if len(raw) % whole]
    if wrong:
        raise ValueError(f"{wrong[0]} has {len(files[wrong[0]])} bytes, which is no multiple of {whole}")
    if rules.voices.form == "raw of all":
        (raw,) = files.values()
        return {str(at): _rows(raw[at * whole :][:whole]) for at in range(len(raw) // whole)}
    return {name: _rows(raw) for name, raw in files.items()}


def _rows(raw: bytes) -> np.ndarray:
    return np.frombuffer(raw, "<f4").reshape(-1, 256)
