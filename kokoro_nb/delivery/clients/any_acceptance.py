"""A delivery for any client accepted: by the client itself where it is installed, else by what stands for it here."""

from collections.abc import Sequence
from pathlib import Path

import torch

from kokoro_nb.delivery.clients.acceptance import Acceptance, accept
from kokoro_nb.delivery.clients.chained_acceptance import accept_chain
from kokoro_nb.delivery.clients.client_contract import Form
from kokoro_nb.delivery.clients.client_programs import Request, installed, muteness, speak_in
from kokoro_nb.delivery.clients.imitation import imitate
from kokoro_nb.delivery.clients.known_clients import contract
from kokoro_nb.delivery.clients.staged_acceptance import accept_pair
from kokoro_nb.models.kokoro import Kokoro

STANDS_FOR: dict[Form, str] = {
    "ONNX": "ONNX Runtime, after its contract",
    "ExecuTorch": "ExecuTorch, after its contract",
    "Core ML": "the reference executor, after its contract",
}


def speaker(client: str) -> str:
    """Say what speaks from a delivery here: the client with its version, or what stands for it."""
    rules = contract(client)
    return STANDS_FOR[rules.form] if muteness(client) else f"{rules.client} {installed(client)}"


def accept_any(
    kokoro: Kokoro, client: str, folder: str | Path, requests: Sequence[Request], tables: Sequence[torch.Tensor]
) -> list[Acceptance]:
    """Speak a delivery and compare with PyTorch: see `accept`, `accept_pair` and `accept_chain`."""
    rules = contract(client)
    if rules.form == "ExecuTorch":
        return accept_pair(kokoro, client, folder, requests, tables)
    if rules.form == "Core ML":
        return accept_chain(kokoro, client, folder, requests, tables)
    return accept(kokoro, client, folder, requests, tables, imitate if muteness(client) else speak_in)
