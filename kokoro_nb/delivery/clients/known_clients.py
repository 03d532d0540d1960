"""The programs in the field whose contracts are known, by name and version."""

import difflib

from kokoro_nb.delivery.clients.client_contract import ClientContract
from kokoro_nb.delivery.clients.fluidaudio_client import FLUIDAUDIO
from kokoro_nb.delivery.clients.kokoro_coreml_client import KOKORO_COREML
from kokoro_nb.delivery.clients.onnx_clients import (
    KOKORO_JS,
    KOKORO_ONNX,
    KOKORO_ONNX_0_5,
    SHERPA_ONNX,
    SHERPA_ONNX_1,
)
from kokoro_nb.delivery.clients.react_native_client import REACT_NATIVE, REACT_NATIVE_PADDED
from kokoro_nb.errors import InputError

CONTRACTS: tuple[ClientContract, ...] = (
    KOKORO_ONNX,
    KOKORO_ONNX_0_5,
    SHERPA_ONNX,
    SHERPA_ONNX_1,
    KOKORO_JS,
    REACT_NATIVE,
    REACT_NATIVE_PADDED,
    FLUIDAUDIO,
    KOKORO_COREML,
)
CLIENTS: tuple[str, ...] = tuple(dict.fromkeys(one.client for one in CONTRACTS))


def contract(client: str) -> ClientContract:
    """Return what a program expects.

    Parameters
    ----------
    client : str
        A name, which stands for its newest known version, or one with a version: ``kokoro-onnx==0.5``.

    Raises
    ------
    InputError
        If the program or the version is not known; the nearest one that is, and what differs there, is named.
    """
    name, _, version = (part.strip() for part in client.partition("=="))
    forms = [one for one in CONTRACTS if one.client == name]
    if not forms:
        near = difflib.get_close_matches(name, CLIENTS, 1, 0.0)[0]
        raise InputError(f"There is no client '{name}'; the nearest is {near}, and all are {', '.join(CLIENTS)}.")
    for one in forms:
        if not version or any(_within(version, known) or _within(known, version) for known in one.known):
            return one
    near_form = min(forms, key=lambda one: abs(_number(one.known[0]) - _number(version)))
    others = [one for one in forms if one is not near_form]
    differs = "; ".join(difference(near_form, one) for one in others) or "no other version is known"
    raise InputError(f"{name} {version} is not known; the nearest that is known is {near_form.versions} ({differs}).")


def difference(one: ClientContract, other: ClientContract) -> str:
    """Say in what two contracts of one program differ."""
    pairs = {
        "inputs or outputs": (one.programs, other.programs),
        "row of the style": (one.row.words, other.row.words),
        "voices": (one.voices, other.voices),
        "files": (one.files, other.files),
    }
    changed = [name for name, (first, second) in pairs.items() if first != second]
    return f"{other.versions} differs in {', '.join(changed)}"


def _within(version: str, known: str) -> bool:
    return version == known or version.startswith(f"{known}.")


def _number(version: str) -> float:
    major, _, rest = version.partition(".")
    minor = rest.partition(".")[0]
    try:
        return int(major) + int(minor or 0) / 1000
    except ValueError:
        raise InputError(f"'{version}' is no version; write for example 0.6 or 2.0.1.") from None
