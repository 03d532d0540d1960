"""A Whisper model in the form of Hugging Face's transformers, as a checkpoint in openai-whisper's.

Source of the names: the modules of ``transformers.WhisperForConditionalGeneration`` and of ``whisper.model.Whisper``.
"""

import re
from pathlib import Path
from typing import Any

from kokoro_nb.errors import InputError
from kokoro_nb.storage import read_json

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
    (r"\.self_attn_layer_norm\.", ".attn_ln."),
    (r"\.encoder_attn_layer_norm\.", ".cross_attn_ln."),
    (r"\.final_layer_norm\.", ".mlp_ln."),
    (r"\.self_attn\.", ".attn."),
    (r"\.encoder_attn\.", ".cross_attn."),
    (r"\.q_proj\.", ".query."),
    (r"\.k_proj\.", ".key."),
    (r"\.v_proj\.", ".value."),
    (r"\.out_proj\.", ".out."),
    (r"\.fc1\.", ".mlp.0."),
    (r"\.fc2\.", ".mlp.2."),
)
TIED = "proj_out.weight"  # the output's matrix, which is the embedding's


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
    reason = missing_files(folder)
    if reason:
        raise InputError(reason)
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
    for file in FILES:
        if (folder / INDEX.format(file)).is_file():
            index = read_json(folder / INDEX.format(file), "index of weights")
            parts = index.get("weight_map") if isinstance(index, dict) else None
            if not isinstance(parts, dict) or not all(isinstance(part, str) for part in parts.values()):
                raise InputError(f"{folder / INDEX.format(file)} is no index of weights; copy it again.")
            return {
                name: tensor for part in sorted(set(parts.values())) for name, tensor in _read(folder, part).items()
            }
        if (folder / file).is_file():
            return _read(folder, file)
    return {}


def _read(folder: Path, file: str) -> dict[str, Any]:
    import torch
    from safetensors.torch import load_file

    path = folder / Path(file).name  # a part lies beside its index
    try:
        whole = path.suffix == ".safetensors"
        found = load_file(path) if whole else torch.load(path, map_location="cpu", weights_only=True)
    except FileNotFoundError as error:
        raise InputError(f"There is no file {path}, which the index names; copy the whole folder.") from error
    except Exception as error:  # torch and safetensors raise errors of many kinds for damaged files
        raise InputError(f"{path} is no whole file of tensors ({type(error).__name__}); copy it again.") from error
    if not isinstance(found, dict) or not all(isinstance(one, torch.Tensor) for one in found.values()):
        raise InputError(f"{path} holds more than tensors by name; give the model's own weights.")
    return found
