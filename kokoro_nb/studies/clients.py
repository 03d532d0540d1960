"""One sentence spoken by each client out of its own delivery, and by PyTorch on the same noise."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from kokoro_nb.delivery.clients.acceptance import accept
from kokoro_nb.delivery.clients.client_delivery import deliver_to
from kokoro_nb.delivery.clients.client_folder import vocabulary
from kokoro_nb.delivery.clients.client_programs import Request, muteness, speak_in, speaker
from kokoro_nb.delivery.clients.hosts import imitate
from kokoro_nb.delivery.clients.known_clients import contract
from kokoro_nb.delivery.clients.kokoro_coreml_client import Room
from kokoro_nb.delivery.clients.probe import compare_reading, read_probe, write_probe
from kokoro_nb.models import noise
from kokoro_nb.models.architecture import SAMPLE_RATE
from kokoro_nb.models.kokoro import Kokoro
from kokoro_nb.models.phonemes import encode
from kokoro_nb.models.speaking import TextToAudio
from kokoro_nb.models.voices import load_voice, style

CLIENTS = ("kokoro-onnx", "sherpa-onnx", "kokoro.js")
SIZES = Room(64, (3, 7))  # for a sentence


@dataclass(frozen=True)
class ClientSpeech:
    """What each client said.

    Attributes
    ----------
    versions : dict
        ``PyTorch`` and each client -> audio, (samples,) float32.
    rows : list of dict
        For each client: who spoke, how durations compare with PyTorch's, dB from its own `har`, size, seconds.
    absent : dict
        Client -> why it did not speak itself; what it would do was imitated then.
    sample_rate : int, Hz
    """

    versions: dict[str, np.ndarray]
    rows: list[dict[str, Any]]
    absent: dict[str, str]
    sample_rate: int = SAMPLE_RATE

    @property
    def worst(self) -> float:
        """The lowest of the figures from the same `har`, dB, where no float16 is handed on; NaN if one is."""
        return self._worst("float32")

    @property
    def worst_handed_on(self) -> float:
        """The lowest of those where a client hands float16 from stage to stage, dB; NaN if one is."""
        return self._worst("float16")

    @property
    def hands_on(self) -> bool:
        """Whether there is such a client."""
        return any(row["between stages"] == "float16" for row in self.rows)

    def _worst(self, between: str) -> float:
        return float(np.min([row["dB from the same har"] for row in self.rows if row["between stages"] == between]))

    @property
    def durations_equal(self) -> bool:
        """Whether all durations are PyTorch's, where no float16 is handed on; not where nobody spoke so."""
        found = [row["durations"] == "equal" for row in self.rows if row["between stages"] == "float32"]
        return bool(found) and all(found)

    @property
    def durations_explained(self) -> bool:
        """Whether those of the others are PyTorch's, or are as soon as the same values are rounded there."""
        found = [row["durations"].startswith("equal") for row in self.rows if row["between stages"] == "float16"]
        return bool(found) and all(found)

    @property
    def of_one_length(self) -> list[dict[str, np.ndarray]]:
        """The versions, those of one length together, in the order of their first."""
        lengths = dict.fromkeys(map(len, self.versions.values()))
        return [{name: y for name, y in self.versions.items() if len(y) == length} for length in lengths]


def spoken_by_clients(
    kokoro: Kokoro, text: str, folder: str | Path, speed: float = 1.0, clients: Sequence[str] = CLIENTS
) -> ClientSpeech:
    """Deliver to each client, and have it speak.

    Parameters
    ----------
    kokoro : Kokoro
    text : str
        English.
    folder : path
        Where the deliveries are written, a folder for each; what is there is replaced.
    speed : float
    clients : sequence of str
    """
    symbols = encode(kokoro.model.vocab, text, "espeak").symbols
    symbols = "".join(symbol for symbol in symbols if symbol in kokoro.model.vocab)
    voice = kokoro.default_voice
    versions, rows, absent = {"PyTorch": in_pytorch(kokoro, symbols, speed)}, [], {}
    for client in clients:
        place, reason = Path(folder) / client, muteness(client)
        about = deliver_to(kokoro, client, place, force=True, room=_sizes_for(client))
        if reason:
            absent[client] = reason
        speak, request = imitate if reason else speak_in, Request(symbols, about.voices[0], 0, speed)
        name = client if contract(client).form == "ONNX" else f"{client}, by {speaker(client)}"
        (versions[name],) = speak(client, place, [request])
        (row,) = accept(kokoro, client, place, [request], [load_voice(kokoro, voice)])
        rows.append(
            {
                "client": row.client,
                "spoken by": speaker(client),
                "between stages": between_stages(client),
                "durations": row.durations,
                "dB from the same har": row.from_har,
                "program (MB)": row.bytes / 1e6,
                "load and speak (s)": row.seconds,
                "files": len(about.files),
            }
        )
    return ClientSpeech(versions, rows, absent)


def between_stages(client: str) -> str:
    """Return ``float16`` where a client hands such values to a program, rounded by 2^-11, else ``float32``."""
    rules = [rule for inputs, _ in contract(client).programs.values() for rule in inputs]
    return "float16" if any(rule.dtype == "float16" for rule in rules) else "float32"


def layouts(folder: str | Path, clients: Sequence[str]) -> list[dict[str, Any]]:
    """Return a row for each file of the deliveries in `folder`; a package, which is a folder, counts as one.

    Parameters
    ----------
    folder : path
        What `spoken_by_clients` was given.
    clients : sequence of str
    """
    rows = []
    for client in clients:
        root = Path(folder) / client
        packages = sorted(root.rglob("*.mlpackage"))
        within = {path for package in packages for path in package.rglob("*")}
        files = [path for path in sorted(root.rglob("*")) if path.is_file() and path not in within]
        for path in (*packages, *files):
            parts = path.rglob("*") if path.is_dir() else (path,)
            size = sum(part.stat().st_size for part in parts if part.is_file())
            rows.append({"client": client, "path": path.relative_to(root).as_posix(), "size (kB)": size / 1e3})
    return rows


def in_pytorch(kokoro: Kokoro, symbols: str, speed: float) -> np.ndarray:
    """Return what the model says, unpatched, on the noise that a delivery carries: (samples,) float32."""
    ids = torch.tensor([[0, *(kokoro.model.vocab[symbol] for symbol in symbols), 0]])
    ref_s, bank = style(load_voice(kokoro, ""), symbols), TextToAudio(kokoro.model).bank
    with noise.replayed() as draws:

        def before_decoder(_module: Any, args: tuple[torch.Tensor, ...]) -> None:
            place = torch.arange(args[0].shape[-1] * 600) % bank.shape[0]
            draws.noise = noise.of_harmonics(bank[place][None])

        hook = kokoro.model.decoder.register_forward_pre_hook(before_decoder)
        try:
            audio, _ = kokoro.model.forward_with_tokens(ids, ref_s, speed)
        finally:
            hook.remove()
    return audio.reshape(-1).numpy()


def probed(
    text: str, vocab: dict[str, int], folder: str | Path, speed: float = 0.8, clients: Sequence[str] = CLIENTS
) -> list[dict[str, Any]]:
    """Return what each client fed to a probe, a row for each that has one, and how that deviates from its contract.

    Parameters
    ----------
    text : str
        Phonemes.
    vocab : dict
        Symbol -> id.
    folder : path
        Where the probes are written; what is there is replaced.
    speed : float
    clients : sequence of str
    """
    symbols = "".join(symbol for symbol in text if symbol in vocab)
    named = [client for client in clients if contract(client).form != "Core ML"]
    return [_fed_to_probe(client, symbols, Path(folder) / f"probe-{client}", speed) for client in named]


def _fed_to_probe(client: str, symbols: str, place: Path, speed: float) -> dict[str, Any]:
    speak = imitate if muteness(client) else speak_in
    write_probe(client, place, force=True)
    known = vocabulary(place)
    (audio,) = speak(client, place, [Request(symbols, "probe_1", 1, speed)])
    reading, ids = read_probe(audio), (0, *(known[symbol] for symbol in symbols), 0)
    found, rule = compare_reading(reading, client, ids, speed), contract(client).row.words
    said = {name: value for name, value in asdict(reading).items() if name in ("row", "voice", "speed", "gain")}
    deviations = " ".join(found) or "none"
    return {"client": client, "ids": reading.count, "rule": rule, **said, "deviations": deviations}


def _sizes_for(client: str) -> Room | None:
    """Return the sizes of a client that has programs of several, else None."""
    return SIZES if contract(client).client == "kokoro-coreml" else None
