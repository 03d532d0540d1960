"""One sentence spoken by each client out of its own delivery, and by PyTorch on the same noise."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from kokoro_nb.delivery.clients.acceptance import accept
from kokoro_nb.delivery.clients.client_folder import vocabulary
from kokoro_nb.delivery.clients.client_programs import Request, muteness, speak_in, speaker
from kokoro_nb.delivery.clients.hosts import imitate
from kokoro_nb.delivery.clients.known_clients import Room, contract
from kokoro_nb.delivery.clients.probe import compare_reading, read_probe, write_probe
from kokoro_nb.models import noise
from kokoro_nb.models.kokoro import Kokoro
from kokoro_nb.models.phonemes import encode
from kokoro_nb.models.speaking import TextToAudio
from kokoro_nb.models.voices import load_voice, style

CLIENTS = ("kokoro-onnx", "sherpa-onnx", "kokoro.js")
SPEED = 0.8  # that a probe is asked for


@dataclass(frozen=True)
class ClientVersion:
    """What one client said.

    Attributes
    ----------
    name : str
        The client, and what stands for it where it runs on other machines alone.
    audio : numpy.ndarray, shape (samples,), float32
        24 kHz, full scale 1.
    row : dict
        Who spoke, how durations compare with PyTorch's, dB from its own `har`, size, seconds.
    absent : str
        Why it did not speak itself, in which case its contract was imitated; empty if it did.
    """

    name: str
    audio: np.ndarray
    row: dict[str, Any]
    absent: str


def spoken_by(
    kokoro: Kokoro, client: str, folder: str | Path, symbols: str, voice: str, speed: float = 1.0
) -> ClientVersion:
    """Have a client speak from its delivery, and compare with PyTorch: see `acceptance.accept`.

    Parameters
    ----------
    kokoro : Kokoro
        The model that was delivered, in its default voice.
    client, folder : str, path
        As for `deliver`.
    symbols : str
        Phonemes of the vocabulary.
    voice : str
        Its name in the delivery.
    speed : float
    """
    reason, request = muteness(client), Request(symbols, voice, 0, speed)
    (audio,) = (imitate if reason else speak_in)(client, folder, [request])
    (row,) = accept(kokoro, client, folder, [request], [load_voice(kokoro, kokoro.default_voice)])
    figures: dict[str, Any] = {"client": row.client, "spoken by": speaker(client)}
    # what is handed to a program in float16 is rounded by 2^-11
    halved = any(rule.dtype == "float16" for inputs, _ in contract(client).programs.values() for rule in inputs)
    figures |= {"between stages": "float16" if halved else "float32", "durations": row.durations}
    figures["dB from the same har"] = row.from_har
    figures |= {"program (MB)": row.bytes / 1e6, "load and speak (s)": row.seconds}
    name = client if contract(client).form == "ONNX" else f"{client}, by {speaker(client)}"
    return ClientVersion(name, audio, figures, reason or "")


def agreement(rows: Sequence[Mapping[str, Any]], between: str) -> tuple[bool, float]:
    """Return whether all durations are PyTorch's, and the lowest figure from the same `har`, dB; NaN if one is.

    Parameters
    ----------
    rows : sequence of mapping
        Those of `ClientVersion`.
    between : str
        Those rows count whose client hands such values from stage to stage; without one nothing is right. Of
        ``float16`` durations are also right that are PyTorch's as soon as the same values are rounded there.
    """
    found = [row for row in rows if row["between stages"] == between]
    right = ("equal", "equal after float16") if between == "float16" else ("equal",)
    least = float(np.min([row["dB from the same har"] for row in found] or [np.nan]))
    return bool(found) and all(row["durations"] in right for row in found), least


def in_pytorch(kokoro: Kokoro, text: str, speed: float = 1.0) -> tuple[str, np.ndarray]:
    """Return the phonemes of an English text, those of the vocabulary alone, and what the model says of them.

    The model is unpatched, and hears the noise that a delivery carries: (samples,) float32, 24 kHz, full scale 1.
    """
    spoken = encode(kokoro.model.vocab, text, "espeak")
    symbols = "".join(symbol for symbol in spoken.symbols if symbol in kokoro.model.vocab)
    ref_s, bank = style(load_voice(kokoro, ""), symbols), TextToAudio(kokoro.model).bank
    with noise.replayed() as draws:

        def before_decoder(_module: Any, args: tuple[torch.Tensor, ...]) -> None:
            draws.noise = noise.of_harmonics(noise.cyclic(bank, args[0].shape[-1] * 600))

        with kokoro.model.decoder.register_forward_pre_hook(before_decoder):
            audio, _ = kokoro.model.forward_with_tokens(spoken.ids, ref_s, speed)
    return symbols, audio.reshape(-1).numpy()


def probed(text: str, vocab: dict[str, int], folder: str | Path, clients: Sequence[str]) -> list[dict[str, Any]]:
    """Return what each client fed to a probe at `SPEED`, a row for each that has one, and how that deviates.

    Parameters
    ----------
    text : str
        Phonemes.
    vocab : dict
        Symbol -> id.
    folder : path
        Where the probes are written; what is there is replaced.
    clients : sequence of str
    """
    symbols = "".join(symbol for symbol in text if symbol in vocab)
    rows = []
    for client in [client for client in clients if contract(client).form != "Core ML"]:
        place = Path(folder) / f"probe-{client}"
        write_probe(client, place, force=True)
        known = vocabulary(place)
        (audio,) = (imitate if muteness(client) else speak_in)(client, place, [Request(symbols, "probe_1", 1, SPEED)])
        reading, ids = read_probe(audio), (0, *(known[symbol] for symbol in symbols), 0)
        row: dict[str, Any] = {"client": client, "ids": reading.count, "rule": contract(client).row.words}
        row |= {name: getattr(reading, name) for name in ("row", "voice", "speed", "gain")}
        rows.append({**row, "deviations": " ".join(compare_reading(reading, client, ids, SPEED)) or "none"})
    return rows


def sizes_for(client: str) -> Room | None:
    """Return sizes for a sentence, of a client that has programs of several, else None."""
    return Room(64, (3, 7)) if contract(client).client == "kokoro-coreml" else None
