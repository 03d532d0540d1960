"""A delivery for any client accepted: by the client itself where it is installed, else by what stands for it here."""

import tempfile
from collections.abc import Sequence
from pathlib import Path

import torch

from kokoro_nb.delivery.clients.acceptance import Acceptance, accept
from kokoro_nb.delivery.clients.chained_acceptance import accept_chain
from kokoro_nb.delivery.clients.client_contract import Form
from kokoro_nb.delivery.clients.client_programs import Request, absence, installed, muteness, speak_in
from kokoro_nb.delivery.clients.imitation import imitate
from kokoro_nb.delivery.clients.known_clients import contract
from kokoro_nb.delivery.clients.probe import read_probe, write_probe
from kokoro_nb.delivery.clients.staged_acceptance import accept_pair
from kokoro_nb.models.kokoro import Kokoro

STANDS_FOR: dict[Form, str] = {
    "ONNX": "ONNX Runtime, after its contract",
    "ExecuTorch": "ExecuTorch, after its contract",
    "Core ML": "the reference executor, after its contract",
}


def takes_text(client: str) -> bool:
    """Say whether a client can speak here and takes text alone, so that what it feeds is its own reading of a text."""
    return not contract(client).phonemes and absence(client) is None


def speaker(client: str, text: bool = False) -> str:
    """Say what speaks from a delivery here, given phonemes or a text: the client with its version, or its stand-in."""
    rules = contract(client)
    silent = absence(client) if text else muteness(client)
    return STANDS_FOR[rules.form] if silent else f"{rules.client} {installed(client)}"


def _read_by(client: str, request: Request) -> tuple[int, ...]:
    """Return the ids that a client makes of a text, with both pads, as a probe in the place of a voice tells them."""
    with tempfile.TemporaryDirectory() as place:
        write_probe(client, Path(place) / "probe")
        (audio,) = speak_in(client, Path(place) / "probe", [request])
    return read_probe(audio).ids


def accept_any(
    kokoro: Kokoro, client: str, folder: str | Path, requests: Sequence[Request], tables: Sequence[torch.Tensor]
) -> list[Acceptance]:
    """Speak a delivery and compare with PyTorch: see `accept`, `accept_pair` and `accept_chain`."""
    rules = contract(client)
    if rules.form == "ExecuTorch":
        return accept_pair(kokoro, client, folder, requests, tables)
    if rules.form == "Core ML":
        return accept_chain(kokoro, client, folder, requests, tables)
    if takes_text(client) and all(request.route == "text" for request in requests):
        read = [_read_by(client, request) for request in requests]
        return accept(kokoro, client, folder, requests, tables, speak_in, read)
    return accept(kokoro, client, folder, requests, tables, imitate if muteness(client) else speak_in)
