"""A folder for a program in the field, whole and with checksums, or none."""

import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from kokoro_nb.delivery.clients.client_contract import ClientContract, Dtype
from kokoro_nb.delivery.clients.client_folder import Material, write_client
from kokoro_nb.delivery.clients.exported_programs import NoiseChoice, exported_programs
from kokoro_nb.delivery.clients.known_clients import SEED, Room, contract
from kokoro_nb.delivery.contract import changed_files, read_schema
from kokoro_nb.errors import InputError
from kokoro_nb.models.architecture import STYLE, full_config
from kokoro_nb.models.kokoro import Kokoro
from kokoro_nb.models.voices import load_voice
from kokoro_nb.storage import atomic, checksums, write_json

FILE = "delivery.json"
SCHEMA = 1
PROMISED = ("client", "versions", "max_tokens", "min_speed", "max_speed", "sample_rate", "audio", "raw")  # by contract
WORDS = ("hello", "world", "the", "quick", "brown", "fox", "jumps", "over", "lazy", "dog")


@dataclass(frozen=True)
class ClientDelivery:
    """What ``delivery.json`` says of a folder.

    Attributes
    ----------
    client, versions : str
        The program that it is for.
    weights : str
        Label of the weights.
    dtype : str
        How the weights are stored.
    noise : dict
        Origin, seed and length of the source's noise.
    voices : tuple of str
        In the order in which the client numbers them.
    row : str
        The row that the client takes for n ids; the tables are laid out for it.
    max_tokens : int
        Ids between the two pads, at most.
    min_speed, max_speed : float
    sample_rate : int, Hz
    audio, raw : str
        What the client does to the audio by default, and with which settings it does nothing.
    files : dict
        Path in the folder -> size and SHA-256.
    """

    client: str
    versions: str
    weights: str
    dtype: str
    noise: dict[str, Any]
    voices: tuple[str, ...]
    row: str
    max_tokens: int
    min_speed: float
    max_speed: float
    sample_rate: int
    audio: str
    raw: str
    files: dict[str, dict[str, Any]]


def deliver_to(
    kokoro: Kokoro,
    client: str,
    folder: str | Path,
    voices: Sequence[str] = (),
    dtype: Dtype = "float32",
    force: bool = False,
    noise: NoiseChoice | None = None,
    words: Sequence[str] = WORDS,
    room: Room | None = None,
) -> ClientDelivery:
    """Write a folder that a program in the field loads and speaks with.

    Parameters
    ----------
    kokoro : Kokoro
        What `load_model` returned.
    client : str
        See `known_clients.contract`.
    folder : path
        Absent or empty, unless `force` is given.
    voices : sequence of str
        See `voices.load_voice`; the model's default by default.
    dtype : str
        How the weights are stored; inputs, outputs and arithmetic stay as in float32, but for Core ML, whose programs
        compute in it.
    force : bool
        Replace what is in the folder, whole.
    noise : NoiseChoice, optional
        A bank of 1 s, seed 0, by default; none for a client that makes the noise.
    words : sequence of str
        Those of the lexicon, where the client reads one.
    room : Room, optional
        The sizes, where the client has programs of several; all by default.

    Raises
    ------
    InputError
        If the client, a voice or the dtype is unknown, the client has no choice of noise or of sizes, or the folder is
        not empty; nothing is written then.
    """
    rules, path = contract(client), Path(folder)
    if dtype not in rules.stored:
        raise InputError(f"{rules.label} reads no weights stored as {dtype}; use one of {', '.join(rules.stored)}.")
    said = _require_choices(rules, noise, room)
    require_free(path, force)
    tables = {_name(one or kokoro.default_voice): load_voice(kokoro, one)[:, 0].numpy() for one in voices or ("",)}
    if rules.form == "ExecuTorch":
        _require_vocabulary(kokoro, rules)
    source = exported_programs(kokoro, noise or NoiseChoice(), rules, dtype, room)
    programs = (room or Room()).programs if rules.client == "kokoro-coreml" else ()
    material = Material(source, model_config(kokoro), tables, dtype, tuple(dict.fromkeys(words)), programs)
    with atomic(path) as draft:
        write_client(material, rules, draft)
        made: dict[str, Any] = {"weights": kokoro.weights.label, "dtype": dtype, "noise": said, "voices": tuple(tables)}
        promised = {name: getattr(rules, name) for name in PROMISED}
        about = ClientDelivery(**made, **promised, row=rules.row.words, files=checksums(draft, (FILE,)))
        write_json(draft / FILE, {"schema": SCHEMA, **asdict(about)})
    return about


def _require_choices(rules: ClientContract, noise: NoiseChoice | None, room: Room | None) -> dict[str, Any]:
    """Refuse a choice that a client does not leave, and return where the noise comes from, for the record."""
    if room is not None and rules.client != "kokoro-coreml":
        raise InputError(f"{rules.label} has programs of one size; deliver it without a choice of sizes.")
    if rules.makes_noise:
        if noise is not None:
            raise InputError(f"{rules.label} makes the source's noise itself; deliver it without a choice of noise.")
        return {"origin": "client", "seed": SEED}
    return asdict(noise or NoiseChoice())


def _require_vocabulary(kokoro: Kokoro, rules: ClientContract) -> None:
    """Refuse weights with another table of symbols than the published one, which the client holds itself."""
    other = [symbol for symbol, number in full_config()["vocab"].items() if kokoro.model.vocab.get(symbol) != number]
    if other:
        raise InputError(
            f"{rules.label} holds the published table of symbols, and these weights' has another '{other[0]}'."
        )


def model_config(kokoro: Kokoro) -> dict[str, Any]:
    """Return what clients read of a ``config.json``: the vocabulary, the sizes of the model, the source's layer."""
    model = kokoro.model
    sizes = {"n_token": model.text_encoder.embedding.num_embeddings, "max_position": model.context_length}
    linear = model.decoder.generator.m_source.l_linear
    source = {"linear_weights": linear.weight[0].tolist(), "linear_bias": float(linear.bias[0])}
    return {"weights": kokoro.weights.label, "style_dim": STYLE, **sizes, "source": source, "vocab": dict(model.vocab)}


def require_free(folder: Path, force: bool) -> None:
    """Refuse a folder with something in it, unless it may be replaced.

    Raises
    ------
    InputError
        If it is a file, or not empty and `force` is not given.
    """
    if folder.is_dir() and any(folder.iterdir()) and not force:
        raise InputError(f"{folder} is not empty; choose another folder, or replace it whole with --force.")
    if folder.exists() and not folder.is_dir():
        raise InputError(f"{folder} is a file; choose another folder.")


def read_delivery(folder: str | Path) -> ClientDelivery:
    """Read what a folder was delivered as, and require that every file is as it was written.

    Raises
    ------
    InputError
        If it is no delivery for a client, or a file is missing or has changed.
    """
    path = Path(folder) / FILE
    about = read_schema(path, "delivery", SCHEMA)
    try:
        made = ClientDelivery(**{**about, "voices": tuple(about["voices"])})
        changed = changed_files(folder, made.files)
    except (TypeError, KeyError, AttributeError) as error:
        raise InputError(f"{path} is no delivery ({error}); deliver the folder again.") from error
    if changed:
        raise InputError(f"{', '.join(changed)} in {folder} is not as it was delivered; deliver it again.")
    return made


def _name(voice: str) -> str:
    """Return the name under which a voice is delivered: that of its file, or a blend's with signs replaced."""
    name = Path(voice).stem if Path(voice).suffix in (".pt", ".safetensors") else re.sub(r"[^\w-]+", "_", voice)
    if not re.fullmatch(r"[\w-]+", name):
        raise InputError(f"'{voice}' gives no name for a file; rename the voice with letters, digits and _.")
    return name
