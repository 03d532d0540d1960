"""Load Kokoro: published weights, a local copy, or weights made here from a seed."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from kokoro.model import KModel

from kokoro_nb.errors import InputError
from kokoro_nb.models.architecture import build, full_config, initialise, narrow_config
from kokoro_nb.models.weights import MADE_HERE, Weights, digest_tensors, hub_file, load_state, read_config, read_state

HUB_ID = re.compile(r"\w[\w.-]*/\w[\w.-]*")
WEIGHT_FILES = (".pth", ".safetensors")
PUBLISHED = "hexgrad/Kokoro-82M"
GENERATED = {"seeded": full_config, "narrow": narrow_config}
BUNDLED = {"mini": Path(__file__).parents[2] / "data" / "kokoro_mini"}


@dataclass(frozen=True)
class Kokoro:
    """A model with the weights in it, and the way to its voices.

    Attributes
    ----------
    model : kokoro.model.KModel
        In eval mode, without gradients, unpatched.
    weights : Weights
        What it holds.
    voice_file : callable or None
        Voice name -> path of its file; None where voices can only be seeded.
    default_voice : str
        The voice where none is named.
    """

    model: KModel
    weights: Weights
    voice_file: Callable[[str], Path] | None
    default_voice: str


def load_model(weights: str | Path = "seeded", seed: int = 0) -> Kokoro:
    """Load Kokoro with the weights named.

    Parameters
    ----------
    weights : str or Path
        ``seeded``: the full architecture with random weights. ``narrow``: the same classes with fewer channels, random.
        ``mini``: a small voice trained here on espeak-ng's speech, in ``data/`` of the project.
        A hub id such as ``hexgrad/Kokoro-82M``. A folder with ``config.json``, one ``.pth`` or ``.safetensors`` and
        ``voices/``. A ``.pth`` or ``.safetensors`` file with ``config.json`` beside it.
    seed : int
        Seed of the random weights; not used with others.

    Raises
    ------
    InputError
        If the weights cannot be found, or do not fit the architecture.
    """
    name = str(weights)
    if name in GENERATED:
        model = build(GENERATED[name]())
        initialise(model, seed)
        return Kokoro(model, _describe(model, name, f"random, seed {seed}"), None, "seeded")
    if name in BUNDLED and BUNDLED[name].is_dir():
        return _load_local(BUNDLED[name], name, "bundled, trained on espeak-ng's voice")
    if Path(name).exists():
        return _load_local(Path(name))
    if HUB_ID.fullmatch(name) and Path(name).suffix not in WEIGHT_FILES:
        return _load_hub(name)
    raise InputError(f"There are no weights '{name}': it is no file or folder; use {MADE_HERE}, a path or a hub id.")


def reachable_weights() -> dict[str, str | None]:
    """Return, None for each name of weights that can be loaded now, else the reason why not."""
    from huggingface_hub import try_to_load_from_cache

    files = ("config.json", KModel.MODEL_NAMES[PUBLISHED])
    cached = all(isinstance(try_to_load_from_cache(PUBLISHED, file), str) for file in files)
    return {
        **dict.fromkeys(GENERATED),
        **{name: None if folder.is_dir() else f"{folder.name} is not in data/" for name, folder in BUNDLED.items()},
        PUBLISHED: None if cached else "not in the hub cache; loading it needs a network",
    }


def _load_hub(repo: str) -> Kokoro:
    model = _built(hub_file(repo, "config.json"))
    path = hub_file(repo, KModel.MODEL_NAMES.get(repo, KModel.MODEL_NAMES[PUBLISHED]))
    load_state(model, read_state(path), repo)

    def voice_file(voice: str) -> Path:
        return hub_file(repo, f"voices/{voice}.pt")

    return Kokoro(model, _describe(model, repo, "published"), voice_file, "af_heart")


def _built(config: Path) -> KModel:
    content = read_config(config)
    try:
        return build(content)
    except Exception as error:  # the constructors of three packages each refuse a wrong value in their own way
        raise InputError(
            f"No model can be built from {config} ({type(error).__name__}: {error}); use the one that belongs to the "
            "weights."
        ) from error


def _load_local(path: Path, name: str = "", origin: str = "local file") -> Kokoro:
    folder = path if path.is_dir() else path.parent
    if path.is_dir():
        found = sorted(p for suffix in WEIGHT_FILES for p in folder.glob(f"*{suffix}"))
        if len(found) != 1:
            raise InputError(
                f"{folder} holds {len(found)} weight files ({', '.join(WEIGHT_FILES)}); "
                "leave one there, or name the file itself."
            )
        path = found[0]
    model = _built(folder / "config.json")
    load_state(model, read_state(path), path.name)
    voices = {p.stem: p for pattern in ("*.pt", "*.safetensors") for p in sorted((folder / "voices").glob(pattern))}

    def voice_file(voice: str) -> Path:
        if voice not in voices:
            raise InputError(
                f"There is no voice '{voice}' beside the weights; there are: {', '.join(voices) or 'none'}."
            )
        return voices[voice]

    default = "af_heart" if "af_heart" in voices else next(iter(voices), "seeded")
    return Kokoro(model, _describe(model, name or path.stem, origin), voice_file, default)


def _describe(model: KModel, name: str, origin: str) -> Weights:
    """Measure the weights in `model`, and have every part of it carry their label: artefacts are named after it."""
    weights = Weights(name, origin, sum(p.numel() for p in model.parameters()), digest_tensors(model.state_dict()))
    for module in model.modules():
        module.weights_label = weights.label
    return weights
