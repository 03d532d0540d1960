"""Whisper's models, by name, file or folder: whether they can be had, and loading them without trusting them."""

import http.client
import os
import re
import threading
import urllib.request
from dataclasses import fields
from pathlib import Path
from typing import Any

from kokoro_nb.errors import InputError, one_line, undocumented
from kokoro_nb.storage import file_digest, read_json

SEEN_IN = {"openai-whisper": ("20250625", "20250625")}  # where it downloads from, which is not documented
NETWORK_SECONDS = 3.0
BUNDLED = {"mini": Path(__file__).parents[2] / "data" / "whisper_mini" / "whisper_mini.pt"}
# A folder in the form of transformers: names of ``WhisperForConditionalGeneration``, and of ``whisper.model.Whisper``
CONFIG, INDEX = "config.json", "{}.index.json"
FILES = ("model.safetensors", "pytorch_model.bin")
DIMENSIONS = {
    "n_mels": "num_mel_bins",
    "n_audio_ctx": "max_source_positions",
    "n_audio_state": "d_model",
    "n_audio_head": "encoder_attention_heads",
    "n_audio_layer": "encoder_layers",
    "n_vocab": "vocab_size",
    "n_text_ctx": "max_target_positions",
    "n_text_state": "d_model",
    "n_text_head": "decoder_attention_heads",
    "n_text_layer": "decoder_layers",
}
NAMES = (  # in this order
    (r"^model\.", ""),
    (r"\bembed_tokens\b", "token_embedding"),
    (r"\bembed_positions\.weight$", "positional_embedding"),
    (r"^encoder\.layer_norm\b", "encoder.ln_post"),
    (r"^decoder\.layer_norm\b", "decoder.ln"),
    (r"\.layers\.", ".blocks."),
    (r"\.self_attn", ".attn"),
    (r"\.encoder_attn", ".cross_attn"),
    (r"attn_layer_norm\.", "attn_ln."),
    (r"\.final_layer_norm\.", ".mlp_ln."),
    (r"\.q_proj\.", ".query."),
    (r"\.k_proj\.", ".key."),
    (r"\.v_proj\.", ".value."),
    (r"\.out_proj\.", ".out."),
    (r"\.fc1\.", ".mlp.0."),
    (r"\.fc2\.", ".mlp.2."),
)
TIED = "proj_out.weight"  # the output's matrix, which is the embedding's


def whisper_available(model: str | Path) -> str | None:
    """Return None if `model` can be loaded here, else the reason why not, in one sentence.

    Parameters
    ----------
    model : str or Path
        ``mini``, one of ``whisper.available_models()``, the path of a checkpoint in openai-whisper's format, or of a
        folder in Hugging Face's.
        ``mini`` comes with the workbook: trained on espeak-ng's speech over a small vocabulary, see its card. Whisper's
        own are looked for in whisper's cache first; the network is asked for them for 3 seconds at most.
    """
    import whisper

    if str(model) in BUNDLED:
        path = BUNDLED[str(model)]
        return None if path.is_file() else f"{path.name} is not in data/{path.parent.name}; give a checkpoint's path."
    if str(model) not in whisper.available_models():
        if Path(model).is_file():
            return None
        if Path(model).is_dir():
            return missing_files(Path(model))
        known = ", ".join([*BUNDLED, *whisper.available_models()])
        return f"'{model}' is neither a file or folder nor one of whisper's models ({known})."
    url = undocumented(whisper, "_MODELS", f"Nobody knows where '{model}' is", SEEN_IN)[str(model)]
    root = Path(os.getenv("XDG_CACHE_HOME") or Path.home() / ".cache") / "whisper"
    target = root / Path(url).name
    if target.is_file() and file_digest(target) == url.split("/")[-2]:
        return None
    trouble = _unreachable(url)
    if trouble is None:
        return None
    state = "damaged in" if target.is_file() else "not in"
    return (
        f"Whisper's model '{model}' is {state} {root} and cannot be downloaded ({trouble}); "
        f"copy {target.name} there, or give the path of a checkpoint."
    )


def load_whisper(model: str | Path) -> Any:
    """Return the whisper model of that name or path, on the CPU, in evaluation mode.

    A file is read with ``weights_only``, so it can hold nothing but tensors and plain values; its dimensions are held
    against its tensors before the model is built, and every key has to be there.

    Raises
    ------
    InputError
        If it cannot be had, or the file is no whole whisper checkpoint.
    """
    import whisper

    reason = whisper_available(model)
    if reason:
        raise InputError(reason)
    if str(model) not in whisper.available_models():
        return _load_checkpoint(BUNDLED.get(str(model), Path(model)))
    try:
        return whisper.load_model(str(model), device="cpu").eval()
    except (OSError, RuntimeError) as error:
        raise InputError(f"Whisper's model '{model}' cannot be loaded ({error}); give a checkpoint's path.") from error


def _unreachable(url: str) -> str | None:
    """Return None if `url` answers in time, else why not."""
    outcome: list[str | None] = ["no answer in time"]

    def ask() -> None:
        try:
            request = urllib.request.Request(url, method="HEAD")
            with urllib.request.urlopen(request, timeout=NETWORK_SECONDS):
                outcome[0] = None
        except (OSError, http.client.HTTPException) as error:
            outcome[0] = str(getattr(error, "reason", error))

    # in a thread, because the look-up of a host name heeds no timeout
    asking = threading.Thread(target=ask, daemon=True)
    asking.start()
    asking.join(NETWORK_SECONDS)
    return outcome[0]


def _load_checkpoint(path: Path) -> Any:
    import torch
    from whisper.model import ModelDimensions, Whisper

    checkpoint = read_folder(path) if path.is_dir() else _opened(path)
    if not isinstance(checkpoint, dict) or not {"dims", "model_state_dict"} <= set(checkpoint):
        raise InputError(f"{path} is no whisper checkpoint: it has no 'dims' and 'model_state_dict'.")
    dims, state = checkpoint["dims"], checkpoint["model_state_dict"]
    _check_dims(path, dims, state)
    model = Whisper(ModelDimensions(**dims))
    try:
        model.load_state_dict(state)
    except RuntimeError as error:
        raise InputError(f"The tensors in {path} do not make up the model that its dimensions describe.") from error
    if not all(bool(torch.isfinite(tensor).all()) for tensor in model.parameters()):
        raise InputError(f"{path} holds weights that are not finite; get the checkpoint again.")
    return model.eval()


def _opened(path: Path) -> Any:
    import torch
    from safetensors.torch import load_file

    try:
        whole = path.suffix == ".safetensors"
        return load_file(path) if whole else torch.load(path, map_location="cpu", weights_only=True)
    except FileNotFoundError as error:
        raise InputError(f"There is no file {path}, which the index names; copy the whole folder.") from error
    except Exception as error:  # torch and safetensors raise unpickling, zip, runtime and end-of-file errors alike
        said = f"{path} cannot be read as a file of tensors ({one_line(error)})"
        raise InputError(f"{said}; give a whisper checkpoint, or copy the model again.") from error


def _check_dims(path: Path, dims: Any, state: Any) -> None:
    """Hold the dimensions against the format and the tensors, before memory is taken for them."""
    from whisper.model import ModelDimensions

    names = {field.name for field in fields(ModelDimensions)}
    if not isinstance(dims, dict) or set(dims) != names or not all(type(n) is int and n > 0 for n in dims.values()):
        raise InputError(f"The dimensions in {path} must be positive whole numbers named {', '.join(sorted(names))}.")
    fixed = {"n_audio_ctx": (1500,), "n_mels": (80, 128), "n_vocab": (51864, 51865, 51866)}
    for name, allowed in fixed.items():
        if dims[name] not in allowed:
            raise InputError(f"{name} is {dims[name]} in {path}; whisper needs {' or '.join(map(str, allowed))}.")
    width, layers = dims["n_audio_state"], ("encoder.blocks.{}.attn_ln.weight", "decoder.blocks.{}.attn_ln.weight")
    expected = {
        "encoder.conv1.weight": (width, dims["n_mels"], 3),
        "decoder.token_embedding.weight": (dims["n_vocab"], dims["n_text_state"]),
        "decoder.positional_embedding": (dims["n_text_ctx"], dims["n_text_state"]),
        layers[0].format(dims["n_audio_layer"] - 1): (width,),
        layers[1].format(dims["n_text_layer"] - 1): (width,),
    }
    found = {name: tuple(getattr(state.get(name), "shape", ())) for name in expected} if isinstance(state, dict) else {}
    even = width % dims["n_audio_head"] == 0 == dims["n_text_state"] % dims["n_text_head"]
    if found != expected or not even:
        raise InputError(f"The tensors in {path} do not make up the model that its dimensions describe.")


def missing_files(folder: Path) -> str | None:
    """Return None if a folder has a configuration and weights, else which it lacks."""
    if not (folder / CONFIG).is_file():
        return f"There is no {CONFIG} in {folder}; give a folder in Hugging Face's form, or a checkpoint."
    if not any((folder / form.format(file)).is_file() for file in FILES for form in ("{}", INDEX)):
        return f"There is neither {' nor '.join(FILES)} in {folder}; copy the model's weights there."
    return None


def read_folder(folder: Path) -> dict[str, Any]:
    """Return what a checkpoint of openai-whisper's holds.

    Parameters
    ----------
    folder : Path
        With ``config.json`` and the weights in one file or several, ``.safetensors`` before ``.bin``, which is read
        with ``weights_only``.

    Returns
    -------
    dict
        ``dims``: name -> number. ``model_state_dict``: openai-whisper's name -> tensor of any float dtype, as float32.

    Raises
    ------
    InputError
        If the folder lacks a file, one is damaged, or it is another kind of model.
    """
    config = read_json(folder / CONFIG, "configuration")
    if not isinstance(config, dict) or config.get("model_type") != "whisper":
        kind = config.get("model_type") if isinstance(config, dict) else type(config).__name__
        raise InputError(f"{folder / CONFIG} describes no Whisper model but {kind!r}; give a Whisper model's folder.")
    state = {_renamed(name): tensor.float() for name, tensor in _tensors(folder).items() if name != TIED}
    return {"dims": {ours: config.get(theirs) for ours, theirs in DIMENSIONS.items()}, "model_state_dict": state}


def _renamed(name: str) -> str:
    for theirs, ours in NAMES:
        name = re.sub(theirs, ours, name)
    return name


def _tensors(folder: Path) -> dict[str, Any]:
    file = next(file for file in FILES if any((folder / form.format(file)).is_file() for form in ("{}", INDEX)))
    path, parts = folder / INDEX.format(file), [file]
    if path.is_file():
        try:
            parts = sorted(map(str, {*read_json(path, "index of weights")["weight_map"].values()}))
        except (TypeError, KeyError, AttributeError) as error:
            raise InputError(f"{path} is no index of weights; copy it again.") from error
    return {name: tensor for part in parts for name, tensor in _read(folder, part).items()}


def _read(folder: Path, file: str) -> dict[str, Any]:
    import torch

    path = folder / Path(file).name  # a part lies beside its index
    found = _opened(path)
    if not isinstance(found, dict) or not all(isinstance(one, torch.Tensor) for one in found.values()):
        raise InputError(f"{path} holds more than tensors by name; give the model's own weights.")
    return found
