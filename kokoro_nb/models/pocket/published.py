"""PocketTTS with published weights, through the package's own loader."""

from pathlib import Path

import yaml
from pocket_tts import TTSModel

from kokoro_nb.errors import InputError
from kokoro_nb.models.pocket.pocket_architecture import DEFAULT, labelled, packaged_config, without_warnings
from kokoro_nb.models.weights import hub_file

HUB = "kyutai/pocket-tts"  # the repository of the package's default model
_HF = "hf://"


def is_published(source: str) -> bool:
    """Return whether `source` names weights that are loaded: the hub id, or the path of a configuration file."""
    return source == HUB or Path(source).suffix in (".yaml", ".yml")


def load_published(source: str) -> TTSModel:
    """Load PocketTTS with the weights that its configuration names.

    Parameters
    ----------
    source : str
        ``kyutai/pocket-tts``: the package's default model, from the hub or its cache. Else the path of a configuration
        of the package's form, whose ``weights_path`` and ``tokenizer_path`` are local files or ``hf://`` addresses.

    Returns
    -------
    pocket_tts.TTSModel
        In eval mode and without gradients.

    Raises
    ------
    InputError
        If a file cannot be had or does not fit, or a weight is not finite.
    """
    content = packaged_config(DEFAULT) if source == HUB else _read(Path(source))
    for address in _addresses(content):
        _require(address, source)
    try:
        with without_warnings():
            model = TTSModel.load_model(config=None if source == HUB else source)
    except Exception as error:  # the package, safetensors, the tokenizers and torch have errors of their own
        lines = str(error).strip().splitlines()
        raise InputError(
            f"PocketTTS cannot be loaded from {source} ({type(error).__name__}: {lines[0] if lines else ''}); "
            "use the configuration, the weights and the tokenizer that belong together."
        ) from error
    for name, tensor in model.state_dict().items():
        if not tensor.isfinite().all():
            raise InputError(f"'{name}' of {source} holds NaN or infinity; the file is damaged, copy it again.")
    return labelled(model.eval().requires_grad_(False), source if source == HUB else Path(source).name, "published")


def _read(path: Path) -> dict:
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise InputError(f"There is no file {path}; check the path.") from error
    except (OSError, ValueError, yaml.YAMLError) as error:
        raise InputError(f"{path} is no YAML ({type(error).__name__}); start from one of the package's own.") from error
    if not isinstance(content, dict) or not isinstance(content.get("flow_lm"), dict):
        raise InputError(f"{path} is no configuration of PocketTTS; start from one of the package's own.")
    if not _addresses(content):
        raise InputError(f"{path} names no weights; set weights_path, or use 'narrow' or 'seeded' for random ones.")
    return content


def _addresses(content: dict) -> list[str]:
    """Return where the weights are said to be, those of the parts included."""
    parts = (content, content.get("flow_lm"), content.get("mimi"))
    found = [part.get("weights_path") for part in parts if isinstance(part, dict)]
    return [str(address) for address in found if address]


def _require(address: str, source: str) -> None:
    """Have the file in the cache, or say in a sentence that it cannot be had; the package would retry for long."""
    if address.startswith(_HF):
        owner, name, *rest = address.removeprefix(_HF).partition("@")[0].split("/")
        hub_file(f"{owner}/{name}", "/".join(rest), address.partition("@")[2] or None)
    elif not address.startswith("http") and not Path(address).is_file():
        raise InputError(f"There is no file {address}, which {source} names; check the path.")
