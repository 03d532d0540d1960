"""What a delivered folder holds, as a JSON file that an integrator can read: ``contract.json``."""

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

from kokoro_nb.backends.base import Artifact
from kokoro_nb.backends.signature import TensorSpec
from kokoro_nb.errors import InputError
from kokoro_nb.storage import checksum, checksums, read_json, write_json

SCHEMA = 3
FILE = "contract.json"


@dataclass(frozen=True)
class Part:
    """One program.

    Attributes
    ----------
    backend : str
        Name of the backend that it was made for.
    file : str
        Its model file, relative to the folder.
    inputs, outputs : tuple of TensorSpec
        In order.
    """

    backend: str
    file: str
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]


@dataclass(frozen=True)
class Contract:
    """What a delivered folder holds.

    Attributes
    ----------
    weights : str
        Label of the weights.
    tokens : int
        Room of the first stage, the two pad tokens among them; without buckets the most that the model takes.
    buckets : dict
        Name (``3s``) -> room of the decoder, in frames. Empty where every program takes any length.
    sample_rate, samples_per_frame : int
        24000 Hz and 600.
    g2p : str
        What makes phonemes of a text.
    vocab : dict
        Phoneme -> token id.
    voices : dict
        Voice -> file with its table, float32 of shape (510, 256): row i is the style for i + 1 phonemes.
    parts : dict
        ``duration``, and ``prosody_3s`` and ``decoder_3s`` for each bucket; where the decoder begins at `har`,
        ``source_3s`` too. ``prosody``, ``decoder`` and ``source`` where there is one for all lengths.
    files : dict
        Every file of the folder but the contract -> its size (``bytes``) and ``sha256``, as it was written.
    most_frames : int
        The most that one decoder for all lengths takes; 0 where there is none, or no limit.
    """

    weights: str
    tokens: int
    buckets: Mapping[str, int]
    sample_rate: int
    samples_per_frame: int
    g2p: str
    vocab: Mapping[str, int]
    voices: Mapping[str, str]
    parts: Mapping[str, Part]
    files: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    most_frames: int = 0

    def part_name(self, stage: str, bucket: str) -> str:
        """Return the name of the program of `stage`, ``decoder``, for a bucket, or for all lengths where it is ''."""
        return f"{stage}_{bucket}" if bucket else stage

    def width(self, name: str) -> int:
        """Return the last axis of the input `name` of any part."""
        return next(s.shape[-1] for part in self.parts.values() for s in part.inputs if s.name == name)

    def artifact(self, name: str, folder: Path) -> Artifact:
        """Return the program `name` as its backend loads it.

        Raises
        ------
        InputError
            If it is not as it was delivered.
        """
        part = self.parts[name]
        self.require_whole(part.file, folder)
        return Artifact(part.backend, folder / part.file, part.inputs, tuple(spec.name for spec in part.outputs))

    def require_whole(self, file: str, folder: Path) -> None:
        """Refuse a file of the folder that was cut off or changed since it was written, and what stands beside it.

        Parameters
        ----------
        file : str
            Of a part, which has a folder of its own, or of a voice.
        folder : Path
            What was delivered.

        Raises
        ------
        InputError
            If it is not as it was delivered.
        """
        first = PurePosixPath(file).parts[0]
        wanted = {name: about for name, about in self.files.items() if PurePosixPath(name).parts[0] == first}
        changed = changed_files(folder, wanted)
        if changed or not wanted:
            raise InputError(f"{', '.join(changed) or file} in {folder} is not as it was delivered; deliver it again.")


def changed_files(folder: str | Path, files: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Return the names of those `files` whose size or SHA-256 in the folder is not the recorded one."""
    root = Path(folder).resolve()
    paths = {name: (root / name).resolve() for name in files}
    whole = [name for name, path in paths.items() if path.is_relative_to(root) and path.is_file()]
    return [name for name, stated in files.items() if name not in whole or checksum(paths[name]) != stated]


def read_schema(path: Path, what: str, schema: int) -> dict[str, Any]:
    """Return the content of a JSON file with a schema; `what` names it in the error.

    Raises
    ------
    InputError
        If there is none, or it is of another schema.
    """
    about = read_json(path, what)
    if not isinstance(about, dict) or about.pop("schema", None) != schema:
        raise InputError(f"{path} is no {what} of schema {schema}; deliver the folder again.")
    return about


def write_contract(folder: Path, contract: Contract) -> Path:
    """Write ``contract.json`` into `folder`, with what every other file there is."""
    return write_json(folder / FILE, {"schema": SCHEMA, **asdict(contract), "files": checksums(folder, (FILE,))})


def read_contract(folder: str | Path) -> Contract:
    """Read ``contract.json`` in `folder`.

    Raises
    ------
    InputError
        If there is none, it is of another schema, or a file that it names is not there, or lies outside of it.
    """
    path = Path(folder) / FILE
    about = read_schema(path, "contract", SCHEMA)
    try:
        contract = Contract(**{**about, "parts": {name: _part(part) for name, part in about["parts"].items()}})
        _require_kinds(contract)
    except (TypeError, KeyError, AttributeError, ValueError) as error:
        raise InputError(f"{path} is no contract ({error}); deliver the folder again.") from error
    named = [*(part.file for part in contract.parts.values()), *contract.voices.values(), *contract.files]
    files = list(dict.fromkeys(named))
    outside = [file for file in files if not (Path(folder) / file).resolve().is_relative_to(Path(folder).resolve())]
    if outside:
        raise InputError(f"{path} names {', '.join(outside)}, outside of its folder; use a folder that you trust.")
    missing = [file for file in files if not (Path(folder) / file).exists()]
    if missing:
        raise InputError(f"{folder} lacks {', '.join(missing)}; deliver the folder again.")
    return contract


def is_whole(folder: Path) -> bool:
    """Return whether `folder` is a delivery, and every file in it is as it was written."""
    try:
        return not changed_files(folder, read_contract(folder).files)
    except InputError:
        return False


def _require_kinds(contract: Contract) -> None:
    """Raise a TypeError if a value is of another kind than it should be."""
    texts = [contract.weights, contract.g2p, *contract.voices.values(), *contract.voices, *contract.vocab]
    texts += [text for part in contract.parts.values() for text in (part.backend, part.file)]
    numbers = [contract.tokens, contract.sample_rate, contract.samples_per_frame, contract.most_frames]
    numbers += contract.buckets.values()
    specs = [spec for part in contract.parts.values() for spec in (*part.inputs, *part.outputs)]
    numbers += [*contract.vocab.values(), *(size for spec in specs for size in (*spec.shape, *spec.open))]
    texts += [text for spec in specs for text in (spec.name, spec.dtype)]
    texts += [*contract.files, *(about["sha256"] for about in contract.files.values())]
    numbers += [about["bytes"] for about in contract.files.values()]
    if not all(isinstance(text, str) and text.isprintable() and len(text.encode()) < 250 for text in texts) or not all(
        type(number) is int and number >= 0 for number in numbers
    ):
        raise TypeError("a value is of another kind than it should be")
    sized = contract.buckets or "decoder" in contract.parts
    if not sized or not contract.voices or not contract.parts:
        raise TypeError("it has no buckets, voices or parts")


def _part(about: Mapping[str, Any]) -> Part:
    return Part(about["backend"], about["file"], _specs(about["inputs"]), _specs(about["outputs"]))


def _specs(stated: Iterable[Mapping[str, Any]]) -> tuple[TensorSpec, ...]:
    fields = ((one["name"], tuple(one["shape"]), one["dtype"], tuple(one.get("open", ()))) for one in stated)
    return tuple(TensorSpec(*each) for each in fields)
