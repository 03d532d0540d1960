"""Each client on each dtype: whether it loads and speaks a delivery, how near PyTorch, and what it feeds."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from kokoro_nb.delivery.clients.any_acceptance import accept_any, speaker, takes_text
from kokoro_nb.delivery.clients.client_contract import STORED, Dtype
from kokoro_nb.delivery.clients.client_delivery import deliver_to
from kokoro_nb.delivery.clients.client_programs import ClientEnded, Request
from kokoro_nb.delivery.clients.known_clients import CONTRACTS, contract
from kokoro_nb.delivery.clients.sized_packages import Room
from kokoro_nb.errors import InputError
from kokoro_nb.models.kokoro import Kokoro
from kokoro_nb.models.voices import load_voice
from kokoro_nb.studies.clients.spoken_by_clients import fed_to_probe, sizes_for

NAMES = tuple(
    one.client if contract(one.client) is one else f"{one.client}=={one.known[0]}" for one in CONTRACTS
)  # with the version where the name alone stands for another
SYMBOLS = "hˈɛlO, wˈɜɹld."  # for what speaks, and for the probe
TEXT = "Hello, world."  # for a client that takes no phonemes
SIZES = Room(32, (3,))  # that they need


@dataclass(frozen=True)
class ClientTableRow:
    """One client on one dtype.

    Attributes
    ----------
    client, weights, dtype : str
    by : str
        What spoke.
    verdict : {"pass", "fail", "skip"}
        ``pass`` where it speaks with PyTorch's durations and feeds what its contract says.
    durations : str
        See `acceptance.Acceptance`.
    from_har : float, dB
        See `acceptance.Acceptance`; NaN where there is none.
    fed : str
        ``as the contract`` or in what ids, row and speed deviate.
    megabytes, seconds : float
        Of the programs; to load, speak and end.
    reason : str
        Why it is skipped or fails.
    """

    client: str
    weights: str
    dtype: str
    by: str
    verdict: str
    durations: str = ""
    from_har: float = float("nan")
    fed: str = ""
    megabytes: float = float("nan")
    seconds: float = float("nan")
    reason: str = ""

    def as_dict(self) -> dict[str, Any]:
        """Return the row with what is known alone."""
        return {name: value for name, value in asdict(self).items() if value not in ("",) and value == value}


def client_table(
    kokoro: Kokoro, folder: str | Path, clients: Sequence[str] = NAMES, dtypes: Sequence[Dtype] = STORED
) -> Iterator[ClientTableRow]:
    """Yield a row for each client and dtype, as soon as it is there.

    Parameters
    ----------
    kokoro : Kokoro
    folder : path
        Where deliveries and probes are written; what is there is replaced.
    clients : sequence of str
    dtypes : sequence of str
    """
    weights = kokoro.weights.label.partition(" (")[0]
    for client in clients:
        rules, fed = contract(client), ""
        for dtype in dtypes:
            about = (client, weights, dtype, speaker(client, not rules.phonemes))
            if dtype not in rules.stored:
                yield ClientTableRow(*about, "skip", reason=f"it reads no weights stored as {dtype}")
                continue
            try:
                fed = fed or fed_to_probe(client, SYMBOLS, Path(folder) / "probe", room=SIZES, text=TEXT)["deviations"]
                yield _spoken(kokoro, about, Path(folder) / "delivery", fed)
            except (InputError, ClientEnded) as error:
                yield ClientTableRow(*about, "fail", reason=str(error))


def _spoken(kokoro: Kokoro, about: tuple[str, str, Dtype, str], folder: Path, fed: str) -> ClientTableRow:
    client, _, dtype, _ = about
    made = deliver_to(kokoro, client, folder, dtype=dtype, force=True, room=sizes_for(client, SIZES))
    said, route = (TEXT, "text") if takes_text(client) else (SYMBOLS, "codepoints")
    requests, table = [Request(said, made.voices[0], route=route)], load_voice(kokoro, kokoro.default_voice)
    (row,) = accept_any(kokoro, client, folder, requests, [table])
    right = row.durations_right and fed == "none"
    return ClientTableRow(
        *about,
        "pass" if right else "fail",
        row.durations,
        row.from_har,
        "as the contract" if fed == "none" else fed,
        row.bytes / 1e6,
        row.seconds,
    )
