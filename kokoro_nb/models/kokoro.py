"""Load Kokoro: published weights, a local copy, or weights made here from a seed."""

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from kokoro.model import KModel

from kokoro_nb.errors import InputError
from kokoro_nb.models.architecture import build, full_config, initialise, narrow_config
from kokoro_nb.models.weights import MADE_HERE, LoadingReport, Weights, hub_file, label_weights, loaded_from, nearest

HUB_ID = re.compile(r"\w[\w.-]*/\w[\w.-]*")
CHECKPOINTS = (".pth", ".safetensors")
PUBLISHED = "hexgrad/Kokoro-82M"
# both speak English, as the notebooks' texts are
DEFAULT_VOICES = {PUBLISHED: "af_heart", f"{PUBLISHED}-v1.1-zh": "af_maple"}
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
    loading : LoadingReport or None
        What became of every key of the checkpoint; None where the weights were made here.
    language : str
        That all voices speak, as `phonemes.LANGUAGES` names it; ``""`` where a voice's name says it.
    voices : tuple of str
        Names of those beside the weights; empty where nobody can list them (a hub's) or there are none.
    source : str
        The name, hub id or whole path by which `load_model` finds the same weights again, in another process too.
    """

    model: KModel
    weights: Weights
    voice_file: Callable[[str], Path] | None
    default_voice: str
    loading: LoadingReport | None = None
    language: str = ""
    voices: tuple[str, ...] = ()
    source: str = ""


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
        return Kokoro(model, label_weights(model, name, f"random, seed {seed}"), None, "seeded", source=name)
    if name in BUNDLED and BUNDLED[name].is_dir():
        kokoro = _load_local(BUNDLED[name], name, "bundled, trained on espeak-ng's voice")
        return replace(kokoro, language="a", source=name)  # its voices' names are not the published ones
    if Path(name).exists():
        return replace(_load_local(Path(name)), source=str(Path(name).resolve()))
    if HUB_ID.fullmatch(name) and Path(name).suffix not in CHECKPOINTS:
        return replace(_load_hub(name), source=name)
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
    config = hub_file(repo, "config.json")
    path = hub_file(repo, KModel.MODEL_NAMES.get(repo, KModel.MODEL_NAMES[PUBLISHED]))
    model, loading = loaded_from(config, path, repo)

    def voice_file(voice: str) -> Path:
        try:
            return hub_file(repo, f"voices/{voice}.pt")
        except InputError as error:
            cached = [path.stem for path in config.parent.glob("voices/*.pt")]
            raise InputError(f"{error} Voices in the cache: {nearest(voice, cached)}.") from error

    default = DEFAULT_VOICES.get(repo, DEFAULT_VOICES[PUBLISHED])
    return Kokoro(model, label_weights(model, repo, "published"), voice_file, default, loading)


def _load_local(path: Path, name: str = "", origin: str = "local file") -> Kokoro:
    folder = path if path.is_dir() else path.parent
    path = _weight_file(folder) if path.is_dir() else path
    model, loading = loaded_from(folder / "config.json", path, path.name)
    voices = {p.stem: p for pattern in ("*.pt", "*.safetensors") for p in sorted((folder / "voices").glob(pattern))}

    def voice_file(voice: str) -> Path:
        if voice not in voices:
            raise InputError(f"There is no voice '{voice}' beside the weights; there are: {nearest(voice, voices)}.")
        return voices[voice]

    default = next((one for one in DEFAULT_VOICES.values() if one in voices), next(iter(voices), "seeded"))
    about = label_weights(model, name or path.stem, origin)
    return Kokoro(model, about, voice_file, default, loading, voices=tuple(voices))


def _weight_file(folder: Path) -> Path:
    """Return the one checkpoint in a folder."""
    found = [path for path in folder.iterdir() if path.suffix in CHECKPOINTS]
    if len(found) != 1:
        files = f"{len(found)} weight files ({', '.join(CHECKPOINTS)})"
        raise InputError(f"{folder} holds {files}; leave one there, or name the file itself.")
    return found[0]
