"""Voices: tables of style vectors, one row for each length of the phoneme string."""

import re
from pathlib import Path

import torch
from torch import Tensor

from kokoro_nb.errors import InputError
from kokoro_nb.models.architecture import MAX_PHONEMES, STYLE
from kokoro_nb.models.kokoro import Kokoro
from kokoro_nb.models.weights import read_state, read_torch

SHAPE = (MAX_PHONEMES, 1, 2 * STYLE)
SUFFIXES = (".pt", ".safetensors")
SEEDED = re.compile(r"seeded(?::(\d+))?")
SPREAD = 0.3  # standard deviation of the stand-in's style; an assumption, no published voice can be read offline


def load_voice(kokoro: Kokoro, voice: str = "") -> Tensor:
    """Return a voice, or a blend of several.

    Parameters
    ----------
    kokoro : Kokoro
        The model, which knows where its voices lie.
    voice : str
        A voice's name (``af_heart``), a file (see `read_voice`), ``seeded`` or ``seeded:3`` (seed 3) for a random
        stand-in, a blend of these such as ``af_heart:0.6+am_adam:0.4`` or ``seeded:3:0.6,seeded:4:0.4`` (shares are
        divided by their sum; none means one), or empty for the model's default.

    Returns
    -------
    torch.Tensor, shape (510, 1, 256), float32
        Row i is the style for a string of i + 1 phonemes.

    Raises
    ------
    InputError
        If a voice is unknown, its table has another shape or holds NaN or infinity, or a share is no positive
        number.
    """
    parts = [part.strip() for part in re.split(r"[+,]", voice or kokoro.default_voice)]
    names, shares = [], []
    for part in parts:
        whole = len(parts) == 1 or ":" not in part or SEEDED.fullmatch(part)
        name, _, share = (part, "", "1") if whole else part.rpartition(":")
        try:
            shares.append(float(share))
        except ValueError:
            raise InputError(f"'{part}' is no part of a blend; write it as name:share, such as af_heart:0.6.") from None
        names.append(name)
    total = sum(shares)
    if not 0 < total < float("inf") or min(shares) < 0:
        raise InputError(f"The shares of the blend '{voice}' must be positive numbers; write for example a:0.6+b:0.4.")
    tables = [share / total * _table(kokoro, name) for name, share in zip(names, shares, strict=True)]
    return torch.stack(tables).sum(0)


def own_voices(kokoro: Kokoro) -> list[str]:
    """Return two voices that can be loaded with these weights, and their blend in equal shares.

    The first is the default. Where the weights have no other that is known by name, the second is a seeded stand-in.
    """
    first = "seeded:0" if SEEDED.fullmatch(kokoro.default_voice) else kokoro.default_voice
    second = next((name for name in kokoro.voices if name != first), "seeded:1")
    return [first, second, f"{first}:0.5+{second}:0.5"]


def style(table: Tensor, phonemes: str) -> Tensor:
    """Return the row of `table` for a phoneme string: ``ref_s``, shape (1, 256), as the package's pipeline picks it.

    Raises
    ------
    InputError
        If the string is empty or longer than 510.
    """
    if not 1 <= len(phonemes) <= MAX_PHONEMES:
        raise InputError(f"A style is for 1 to {MAX_PHONEMES} phonemes, not {len(phonemes)}; split or mend the text.")
    return table[len(phonemes) - 1]


def _table(kokoro: Kokoro, name: str) -> Tensor:
    seeded = SEEDED.fullmatch(name)
    if seeded:
        source = torch.Generator().manual_seed(int(seeded[1] or 0))
        return (SPREAD * torch.randn(1, 1, 2 * STYLE, generator=source)).repeat(MAX_PHONEMES, 1, 1)
    if Path(name).suffix in SUFFIXES:
        return read_voice(Path(name))
    if not re.fullmatch(r"\w+", name):
        raise InputError(f"'{name}' is no name of a voice; use letters, digits and _, or the path of a .pt file.")
    if kokoro.voice_file is None:
        raise InputError(f"The weights '{kokoro.weights.name}' have no voice '{name}'; use 'seeded' or 'seeded:1'.")
    return read_voice(kokoro.voice_file(name))


def read_voice(path: Path) -> Tensor:
    """Return the table of a voice.

    Parameters
    ----------
    path : Path
        ``.pt``: one tensor. ``.safetensors``: the tensor ``voice``.

    Returns
    -------
    torch.Tensor, shape (510, 1, 256), float32

    Raises
    ------
    InputError
        If the file is absent or damaged, or has a table of another shape, or holds NaN or infinity.
    """
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
