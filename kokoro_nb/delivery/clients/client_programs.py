"""Speech made by the client's own program, in a process of its own, which a client may end.

The clients are Python packages that need other versions than this project pins: kokoro-onnx brings a `phonemizer` that
takes the place of the one that misaki needs. So they live in a virtual environment of their own, whose interpreter
``$KOKORO_NB_CLIENTS`` names; without it, this interpreter is tried. kokoro.js runs in Node, where ``$KOKORO_NB_NODE``
names the folder ``node_modules`` that it was installed into.
"""

import json
import os
import shutil
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path

import numpy as np

from kokoro_nb import run_apart
from kokoro_nb.delivery.clients.client_contract import ClientContract, Form
from kokoro_nb.delivery.clients.known_clients import contract
from kokoro_nb.errors import InputError

ENVIRONMENT, NODE = "KOKORO_NB_CLIENTS", "KOKORO_NB_NODE"
STANDS_FOR: dict[Form, str] = {"ONNX": "ONNX Runtime", "ExecuTorch": "ExecuTorch", "Core ML": "the reference executor"}
_PLAYERS = Path(__file__).parent / "players"
PATIENCE = 600.0  # seconds for all requests of a job


@dataclass(frozen=True)
class Request:
    """One utterance.

    Attributes
    ----------
    symbols : str
        Phonemes of the vocabulary.
    voice : str
        By name, and `number`, its position in the delivery: a client takes one or the other.
    speed : float
    """

    symbols: str
    voice: str
    number: int = 0
    speed: float = 1.0


class ClientEnded(RuntimeError):
    """The client's process ended without an answer; the message is the end of what it printed."""


def interpreter() -> str:
    """Return the interpreter that the clients are installed for."""
    return os.environ.get(ENVIRONMENT) or sys.executable


def installed(client: str) -> str | None:
    """Return the version of a client's package that can be run here, or None."""
    name = client.partition("==")[0]
    if name == "kokoro.js":
        about = Path(os.environ.get(NODE, "")) / "kokoro-js" / "package.json"
        known = os.environ.get(NODE) and shutil.which("node") and about.is_file()
        return json.loads(about.read_text(encoding="utf-8"))["version"] if known else None
    return _versions(interpreter()).get(name)


@cache
def _versions(python: str) -> dict[str, str]:
    try:
        return run_apart.installed(python)
    except InputError:
        return {}


def absence(client: str) -> str | None:
    """Return why a client cannot speak here, in one sentence, or None."""
    rules, found = contract(client), installed(client)
    if rules.form != "ONNX":
        return f"{rules.client} runs on {'phones' if rules.form == 'ExecuTorch' else 'Macs and iPhones'} alone."
    if found is None and rules.client == "kokoro.js":
        return f"kokoro.js is not installed; `npm install kokoro-js`, and name its node_modules in ${NODE}."
    if found is None:
        return f"{rules.client} is not installed; install it apart, and name its interpreter in ${ENVIRONMENT}."
    if not rules.covers(found):
        return f"{rules.client} {found} is installed here, and the contract is that of {rules.versions}."
    return None


def muteness(client: str) -> str | None:
    """Return why a client cannot be given phonemes here, in one sentence, or None."""
    rules = contract(client)
    return absence(client) or (None if rules.phonemes else f"{rules.label} takes text alone, and no phonemes.")


def speaker(client: str) -> str:
    """Say what speaks from a delivery here: the client with its version, or what stands for it."""
    rules = contract(client)
    if muteness(client):
        return f"{STANDS_FOR[rules.form]}, after its contract"
    return f"{rules.client} {installed(client)}"


def require_speakable(rules: ClientContract, request: Request) -> None:
    """Refuse what a client would cut or end with.

    Raises
    ------
    InputError
        If there are too many phonemes, or the speed is out of its range.
    """
    if not rules.min_speed <= request.speed <= rules.max_speed:
        span = f"{rules.min_speed:g} to {rules.max_speed:g}"
        raise InputError(f"{rules.label} speaks at a speed of {span}, not {request.speed:g}.")
    if len(request.symbols) > rules.max_tokens:
        count = len(request.symbols)
        raise InputError(f"{count} phonemes are more than the {rules.max_tokens} of {rules.label}; cut the text.")


def speak_in(client: str, folder: str | Path, requests: Sequence[Request]) -> list[np.ndarray]:
    """Have the client itself load a folder and speak.

    Parameters
    ----------
    client : str
        See `known_clients.contract`.
    folder : path
        In the client's layout.
    requests : sequence of Request

    Returns
    -------
    list of numpy.ndarray, shape (samples,), float32
        Audio of each request, as the client returns it with the settings under which it leaves silence as it is.

    Raises
    ------
    InputError
        If the client cannot speak here.
    ClientEnded
        If its process ends with an error.
    """
    if reason := muteness(client):
        raise InputError(reason)
    for request in requests:
        require_speakable(contract(client), request)
    with tempfile.TemporaryDirectory() as place:
        job, name = Path(place) / "job.json", contract(client).client
        about = {"folder": str(Path(folder).resolve()), "requests": [asdict(request) for request in requests]}
        job.write_text(json.dumps(about), encoding="utf-8")
        program, script, more = interpreter(), f"{name.replace('-', '_')}_player.py", []
        if name == "kokoro.js":
            program, script, more = "node", "kokoro_js_player.mjs", [os.environ[NODE]]
        clean = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        done = run_apart.run_apart([_PLAYERS / script, job, place, *more], program, PATIENCE, environment=clean)
        spoken = [Path(place) / f"{number}.f32" for number in range(len(requests))]
        if done.status or not all(path.is_file() for path in spoken):
            raise ClientEnded(f"{client} ended with status {done.status}: {done.last_line}")
        return [np.fromfile(path, "<f4") for path in spoken]
