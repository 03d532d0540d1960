"""Where weights come from, read without executing anything, and how a checkpoint gets into a model.

The package loads without ``strict``, and where that fails it cuts seven characters off each key: weights that do not
fit are then left as they were drawn, without a word. Here every key is used, or named with what became of it.
"""

import hashlib
import json
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path, PurePosixPath
from typing import Any
from zipfile import BadZipFile, ZipFile, is_zipfile

import torch
from kokoro.model import KModel
from torch import Tensor, nn

from kokoro_nb.errors import InputError
from kokoro_nb.models.architecture import STYLE, build

PARTS = ("bert", "bert_encoder", "predictor", "decoder", "text_encoder")
WIDEST, DEEPEST = 4096, 64  # the most that a config.json may have: Kokoro's widest layer has 2048 channels
MADE_HERE = "'mini' (a small trained voice), 'seeded' (random, full size), 'narrow' (random, small)"


@dataclass(frozen=True)
class Weights:
    """What the figures were measured on.

    Attributes
    ----------
    name : str
        As requested: ``seeded``, ``narrow``, a hub id or a path's last part.
    origin : str
        Where they come from, in words.
    parameters : int
        How many there are.
    sha256 : str
        Digest over every tensor, in hexadecimal.
    """

    name: str
    origin: str
    parameters: int
    sha256: str

    @property
    def label(self) -> str:
        """The line that stands on every artefact, figure and page."""
        return f"{self.name} ({self.origin}; {self.parameters / 1e6:.1f} M parameters; sha256 {self.sha256[:8]})"


def label_weights(model: Any, name: str, origin: str) -> Weights:
    """Measure the weights in `model`, a module, and have every part of it carry their label, which names artefacts."""
    weights = Weights(name, origin, sum(p.numel() for p in model.parameters()), digest_tensors(model.state_dict()))
    for module in model.modules():
        module.weights_label = weights.label
    return weights


def digest_tensors(tensors: Mapping[str, Tensor]) -> str:
    """Return the SHA-256 over names, dtypes, shapes and bytes of `tensors`, whatever their order."""
    total = hashlib.sha256()
    for name, tensor in sorted(tensors.items()):
        total.update(f"{name} {tensor.dtype} {tuple(tensor.shape)};".encode())
        total.update(tensor.detach().contiguous().reshape(-1).view(torch.uint8).numpy().data)
    return total.hexdigest()


def hub_file(repo: str, filename: str, revision: str | None = None) -> Path:
    """Return the path of a hub file in the cache, fetched first where a network allows it; the newest by default.

    Raises
    ------
    InputError
        If it is neither cached nor reachable.
    """
    from huggingface_hub import hf_hub_download
    from huggingface_hub.constants import ENDPOINT, HF_HUB_CACHE
    from huggingface_hub.errors import HFValidationError, LocalEntryNotFoundError
    from huggingface_hub.utils import get_session

    try:
        return Path(hf_hub_download(repo, filename, revision=revision, local_files_only=True))
    except HFValidationError as error:
        raise InputError(f"'{repo}' is no hub id; write it as owner/name, such as hexgrad/Kokoro-82M.") from error
    except LocalEntryNotFoundError:
        pass  # not cached: ask the hub
    try:
        get_session().head(ENDPOINT, timeout=5)  # the download itself would try again for half a minute
        return Path(hf_hub_download(repo, filename, revision=revision))
    except Exception as error:  # every network layer below has errors of its own
        place = HF_HUB_CACHE.replace(str(Path.home()), "~", 1)
        raise InputError(
            f"{filename} of '{repo}' is neither in the hub cache ({place}) nor can it be fetched "
            f"({type(error).__name__}); fetch it where there is a network and copy the cache, give a local folder, "
            f"or use {MADE_HERE}."
        ) from error


def read_config(path: Path) -> dict[str, Any]:
    """Read a ``config.json`` of the published form.

    Raises
    ------
    InputError
        If there is no such file, it is no JSON, a key that the model needs is missing, or a size is none that this
        architecture is built in.
    """
    try:
        config = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        absent = f"There is no config.json in {path.parent}"
        raise InputError(f"{absent}; put the model's own beside its weights.") from error
    except (OSError, ValueError, RecursionError) as error:
        raise InputError(f"{path} is not JSON ({error}); put the model's own config.json there.") from error
    needed = ["vocab", "n_token", "hidden_dim", "style_dim", "n_layer", "max_dur", "n_mels", "dropout"]
    needed += ["text_encoder_kernel_size", "plbert", "istftnet"]
    missing = [key for key in needed if not isinstance(config, dict) or key not in config]
    if missing:
        raise InputError(f"{path} lacks {', '.join(missing)}; use the config.json that belongs to the weights.")
    parts = config["plbert"], config["istftnet"], config["vocab"]
    sizes = list(_numbers({key: value for key, value in config.items() if key != "vocab"}))
    layers = [config["n_layer"], parts[0].get("num_hidden_layers", 1) if isinstance(parts[0], dict) else None]
    if (
        config["style_dim"] != STYLE
        or not all(isinstance(part, dict) for part in parts)
        or not all(0 <= size <= WIDEST for size in sizes)
        or not all(type(number) is int and 0 < number <= DEEPEST for number in layers)
    ):
        raise InputError(f"{path} has sizes that no Kokoro has; use the config.json that belongs to the weights.")
    return config


def _numbers(value: Any) -> Iterator[float]:
    """Yield every number in what JSON held."""
    if isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _numbers(item)
    elif isinstance(value, int | float):
        yield value


def read_state(path: Path) -> dict[str, Tensor]:
    """Read a checkpoint as one flat dict ``part.key -> tensor``; never unpickles anything but tensors.

    Parameters
    ----------
    path : Path
        A ``.pth``/``.pt`` of the published form (a dict of parts, whose keys may start with ``module.``) or a flat
        ``.safetensors``.

    Raises
    ------
    InputError
        If there is no such file, it is damaged, or it is of another form.
    """
    if path.suffix == ".safetensors":
        from safetensors import SafetensorError
        from safetensors.torch import load_file

        try:
            return load_file(path)
        except FileNotFoundError as error:
            raise InputError(f"There is no file {path}; check the path.") from error
        except (OSError, SafetensorError, ValueError, RuntimeError) as error:
            raise InputError(f"{path.name} is no whole safetensors file ({error}); copy it again.") from error
    content = read_torch(path)
    if not isinstance(content, dict) or not all(isinstance(part, dict) for part in content.values()):
        raise InputError(f"{path.name} is no Kokoro checkpoint: it must be a dict of {', '.join(PARTS)}.")
    flat = {}
    for part, state in content.items():
        for key, tensor in state.items():
            if not isinstance(tensor, Tensor):
                raise InputError(f"{path.name} holds '{part}.{key}', which is no tensor; use the published checkpoint.")
            flat[f"{part}.{str(key).removeprefix('module.')}"] = tensor
    return flat


def read_torch(path: Path) -> Any:
    """Load a torch file with ``weights_only``: nothing that it brings is executed, and nothing is unpacked.

    Raises
    ------
    InputError
        If there is no such file, or it is damaged, holds more than tensors, or claims to hold more than it has bytes.
    """
    _require_honest(path)
    try:
        return torch.load(path, map_location="cpu", weights_only=True)
    except FileNotFoundError as error:
        raise InputError(f"There is no file {path}; check the path.") from error
    except Exception as error:  # torch raises unpickling, zip, runtime and end-of-file errors alike
        damaged = f"{path.name} is not a whole file of tensors ({type(error).__name__})"
        raise InputError(f"{damaged}; copy it again.") from error


def _require_honest(path: Path) -> None:
    """Refuse an archive with a path that leads out of it, or with more in it than it has bytes: torch packs nothing."""
    try:
        entries = ZipFile(path).infolist() if is_zipfile(path) else []
    except (OSError, BadZipFile, ValueError, NotImplementedError, RuntimeError):
        return  # torch says what is wrong with it
    names = [PurePosixPath(entry.filename.replace("\\", "/")) for entry in entries]
    if any(name.is_absolute() or ".." in name.parts for name in names):
        raise InputError(f"{path.name} holds a path that leads out of it; use the published file.")
    if entries and sum(entry.file_size for entry in entries) > path.stat().st_size:
        raise InputError(f"{path.name} claims to hold more than it has bytes; use the published file.")


def nearest(name: str, names: Collection[str]) -> str:
    """Return the names like `name`, the likest first, and how many others there are; all where none is like it.

    >>> nearest("af_hart", ["af_heart", "am_adam", "bf_emma", "zf_xiaobei"])
    'af_heart, and 3 others'
    >>> nearest("bf_emma", ["af_heart", "am_adam"]), nearest("x", [])
    ('af_heart, am_adam', 'none')
    """
    like = get_close_matches(name, names, n=3, cutoff=0.6) or sorted(names)[:8]
    others = len(names) - len(like)
    more = [f"and {others} other{'s' if others > 1 else ''}"] if others else []
    return ", ".join([*like, *more]) or "none"


POSITION_IDS = "bert.embeddings.position_ids"  # 0, 1, 2 ...: a constant that older transformers stored as a weight


@dataclass(frozen=True)
class LoadingReport:
    """What became of every key of a checkpoint, and of every parameter of the model.

    Attributes
    ----------
    source : str
        Name of the file.
    keys : dict of str to tuple of str
        Outcome -> keys. ``used`` fill a tensor of the model; ``missing`` are those that the model needs and the
        checkpoint lacks; for the ``unexpected`` the model has no tensor; then those ``of another shape``, each with
        its shape and the model's, and ``with NaN or infinity``. ``absent: one and zero`` are affine parameters of
        InstanceNorm, which the published checkpoint lacks too; ``superfluous`` is BERT's table of position numbers,
        the same in every model. ``filters of zeros`` names convolutions with weight norm, each with how many of their
        filters are zero throughout: weight norm divides by the norm of each, so that they are loaded as zero times a
        filter of ones.
    dtypes : tuple of str
        Of the tensors as stored; all become float32.
    """

    source: str
    keys: Mapping[str, tuple[str, ...]]
    dtypes: tuple[str, ...]

    def rows(self) -> list[dict[str, Any]]:
        """Return a row for each outcome that occurs: how many keys, and which."""
        many = {"used", "absent: one and zero"}
        return [
            {"keys": outcome, "how many": len(keys), "which": ", ".join(_parts(keys) if outcome in many else keys)}
            for outcome, keys in self.keys.items()
            if keys
        ]

    def sentence(self) -> str:
        """Return what is wrong and how to mend it, ``""`` where the checkpoint fits."""
        wrong = [_listed(word, self.keys[word]) for word in ("missing", "unexpected") if self.keys[word]]
        if wrong:
            return (
                f"The weights in {self.source} do not fit the model: {'; '.join(wrong)}; "
                "use the weights and the config.json that belong together."
            )
        for key in self.keys["of another shape"]:
            return f"{self.source} has another shape of {key}; use the config.json that belongs to the weights."
        for key in self.keys["with NaN or infinity"]:
            return f"'{key}' in {self.source} holds NaN or infinity; the file is damaged, copy it again."
        return ""


class LoadingError(InputError):
    """Weights that do not fit; `report` names every key."""

    def __init__(self, report: LoadingReport):
        super().__init__(report.sentence())
        self.report = report


def load_state(model: KModel, state: Mapping[str, Tensor], source: str) -> LoadingReport:
    """Load `state` into `model`, and account for every key.

    Only the affine parameters of InstanceNorm may be absent (the published checkpoint has none; they stay at one and
    zero), and only BERT's table of position numbers may be superfluous.

    Parameters
    ----------
    model : kokoro.model.KModel
        Changed in place, if all is right.
    state : dict of str to torch.Tensor
        ``part.key`` -> tensor of any float dtype.
    source : str
        Name of the file.

    Raises
    ------
    LoadingError
        If any other key is missing or unexpected, or a shape or a value is not right; the model is as it was.
    """
    expected = model.state_dict()
    norms = [name for name, module in model.named_modules() if isinstance(module, nn.InstanceNorm1d)]
    optional = {f"{name}.{leaf}" for name in norms for leaf in ("weight", "bias")}
    used = [key for key in state if key in expected and key != POSITION_IDS]
    zeros = dict(_zero_filters(model, state))
    shapes = [(key, tuple(state[key].shape), tuple(expected[key].shape)) for key in used]
    keys = {
        "used": used,
        "missing": sorted(set(expected) - set(state) - optional),
        "unexpected": sorted(set(state) - set(expected) - {POSITION_IDS}),
        "of another shape": [f"{key} {mine}, not {own}" for key, mine, own in shapes if mine != own],
        "with NaN or infinity": [key for key in used if not torch.isfinite(state[key]).all()],
        "absent: one and zero": sorted(optional - set(state)),
        "superfluous": [POSITION_IDS] * (POSITION_IDS in state),
        "filters of zeros": [f"{int(rows.sum())} of {name}" for name, rows in zeros.items()],
    }
    dtypes = tuple(sorted({str(state[key].dtype).removeprefix("torch.") for key in used}))
    report = LoadingReport(source, {outcome: tuple(names) for outcome, names in keys.items()}, dtypes)
    if report.sentence():
        raise LoadingError(report)
    for key in used:
        expected[key].copy_(state[key])
    for name, rows in zeros.items():
        expected[f"{name}.weight_v"][rows] = 1.0
        expected[f"{name}.weight_g"][rows] = 0.0
    return report


def loaded_from(config: Path, path: Path, source: str) -> tuple[KModel, LoadingReport]:
    """Build the model of a ``config.json``, and load a checkpoint: see `read_config`, `read_state` and `load_state`.

    Raises
    ------
    InputError
        If a file is absent, or no configuration or checkpoint of a Kokoro, or they do not fit.
    """
    content = read_config(config)
    try:
        model = build(content)
    except Exception as error:  # the constructors of three packages each refuse a wrong value in their own way
        refused = f"No model can be built from {config} ({type(error).__name__}: {error})"
        raise InputError(f"{refused}; use the one that belongs to the weights.") from error
    return model, load_state(model, read_state(path), source)


def _zero_filters(model: KModel, state: Mapping[str, Tensor]) -> Iterator[tuple[str, Tensor]]:
    """Yield convolutions with weight norm that have filters of zeros alone, and which."""
    for name, module in model.named_modules():
        direction = state.get(f"{name}.weight_v")
        if hasattr(module, "weight_g") and direction is not None and direction.dim() > 1:
            rows = (direction == 0).flatten(1).all(1)
            if rows.any():
                yield name, rows


def _listed(word: str, keys: tuple[str, ...]) -> str:
    more = f" and {len(keys) - 3} more" if len(keys) > 3 else ""
    return f"{word} {', '.join(keys[:3])}{more}"


def _parts(keys: tuple[str, ...]) -> list[str]:
    """Return the parts that keys belong to, each with how many of them."""
    counts = Counter(key.partition(".")[0] for key in keys)
    return [f"{part} {count}" for part, count in counts.items()]
