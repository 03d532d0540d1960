"""Voices as files: the published table of one voice, kokoro-onnx's file of all voices, kokoro.js' raw numbers."""

import zipfile
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from kokoro_nb.errors import InputError
from kokoro_nb.models.architecture import MAX_PHONEMES, STYLE
from kokoro_nb.models.weights import read_state, read_torch

SHAPE = (MAX_PHONEMES, 1, 2 * STYLE)
SEVERAL = (".bin", ".npz")  # in which several voices may lie
SUFFIXES = (".pt", ".safetensors", *SEVERAL)


def read_voice(path: Path, name: str = "") -> Tensor:
    """Return the table of a voice.

    Parameters
    ----------
    path : Path
        ``.pt``: one tensor. ``.safetensors``: the tensor ``voice``. ``.bin`` or ``.npz``, an archive of NumPy arrays by
        the names of voices, as kokoro-onnx reads it. Any other ``.bin``: float32 numbers, little endian, as kokoro.js
        reads them.
    name : str
        Which voice of an archive; it may be left out where there is one.

    Returns
    -------
    torch.Tensor, shape (510, 1, 256), float32

    Raises
    ------
    InputError
        If the file is absent or damaged, has no such voice, or a table of another shape, or holds NaN or infinity.
    """
    table: Any
    if path.suffix in SEVERAL:
        table = _packed(path, name)
    else:
        table = read_state(path).get("voice") if path.suffix == ".safetensors" else read_torch(path)
    if not isinstance(table, Tensor) or tuple(table.shape) != SHAPE or not table.is_floating_point():
        form = f"{table.dtype} {tuple(table.shape)}" if isinstance(table, Tensor) else type(table).__name__
        raise InputError(
            f"The voice file {path.name} must hold one float tensor of shape {SHAPE}, in a .safetensors named 'voice', "
            f"not {form}; use one of the model's own voices."
        )
    if not torch.isfinite(table).all():
        raise InputError(f"The voice file {path.name} holds NaN or infinity; it is damaged, copy it again.")
    return table.float()


def _packed(path: Path, name: str) -> Tensor:
    if not path.is_file():
        raise InputError(f"There is no file {path}; check the path.")
    if path.suffix == ".npz" or zipfile.is_zipfile(path):
        return _of_archive(path, name)
    values = np.fromfile(path, "<f4") if path.stat().st_size % 4 == 0 else np.empty(0)
    if values.size != int(np.prod(SHAPE)) or name:
        raise InputError(
            f"{path.name} is {path.stat().st_size} bytes, not the {4 * int(np.prod(SHAPE))} of one voice in float32, "
            "and no archive of voices by name; copy it again."
        )
    return torch.from_numpy(values.astype(np.float32).reshape(SHAPE))


def _of_archive(path: Path, name: str) -> Tensor:
    try:
        with np.load(path, allow_pickle=False) as voices:
            names = list(voices)
            chosen = name or (names[0] if len(names) == 1 else "")
            if chosen not in names:
                near = get_close_matches(chosen, names, n=3, cutoff=0.4) or sorted(names)[:3]
                has = f"no voice '{name}'" if name else f"{len(names)} voices"
                raise InputError(f"{path.name} has {has}; write {path.name}:{near[0]}, for one, or {', '.join(near)}.")
            return torch.from_numpy(np.asarray(voices[chosen]))
    except (OSError, ValueError, zipfile.BadZipFile, TypeError, EOFError) as error:
        raise InputError(f"{path.name} is no whole archive of voices ({error}); copy it again.") from error
