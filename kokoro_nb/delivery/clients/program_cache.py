"""Where the programs that clients load are saved once they are exported."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from kokoro_nb.cache_keys import cache_key
from kokoro_nb.storage import cache_dir

ROOMS = ("backends", "delivery/clients", "models")  # whose code makes them


def program_place(what: str, packages: Iterable[str], **about: Any) -> Path:
    """Return the path, without a suffix, that belongs to a program made by this code, of this, with these packages.

    Parameters
    ----------
    what : str
        Which program: part of the key.
    packages : iterable of str
        Distributions that make it, beside torch and kokoro.
    about
        What else decides it: plain values.
    """
    key = cache_key({"what": what, **about}, ROOMS, ("torch", "kokoro", *packages))
    return cache_dir() / "client_programs" / key[:16]
