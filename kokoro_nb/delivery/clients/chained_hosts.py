"""Which host chains whose programs."""

from collections.abc import Mapping
from pathlib import Path

from kokoro_nb.delivery.clients.chained_host import ChainedHost
from kokoro_nb.delivery.clients.client_contract import ClientContract
from kokoro_nb.delivery.clients.fluidaudio_host import FluidAudioHost
from kokoro_nb.delivery.clients.kokoro_coreml_host import KokoroCoreMlHost

_HOSTS: dict[str, type[ChainedHost]] = {"fluidaudio": FluidAudioHost, "kokoro-coreml": KokoroCoreMlHost}


def chained_host(
    folder: str | Path, contract: ClientContract, replaced: Mapping[str, Path] | None = None
) -> ChainedHost:
    """Return the host of a client of Core ML programs: see `ChainedHost`."""
    return _HOSTS[contract.client](folder, contract, replaced)
