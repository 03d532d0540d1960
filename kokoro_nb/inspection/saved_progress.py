"""How far an inspection is, saved while it runs, so that one that was killed goes on and finds the same."""

import pickle
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from kokoro_nb.cache_keys import cache_key
from kokoro_nb.inspection.onnx_file import OnnxFile
from kokoro_nb.storage import atomic, cache_dir, checksums, digest, file_digest

EVERY = 15.0  # seconds between two savings; what takes less is not saved at all
PACKAGES = ("numpy", "onnx", "onnxruntime")


class Gathering:
    """What gathers something while nodes pass one after the other, and can be saved on the way.

    Attributes
    ----------
    gathered : tuple of str
        Names of the attributes that the next node changes.
    """

    gathered: ClassVar[tuple[str, ...]] = ()

    @property
    def state(self) -> dict[str, Any]:
        """What was gathered so far, for `restore`; the next node changes it."""
        return {name: getattr(self, name) for name in self.gathered}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on from a state of the same file."""
        for name in self.gathered:
            setattr(self, name, state[name])


@dataclass
class SavedProgress:
    """Where the progress of one file on one set of inputs is saved.

    Attributes
    ----------
    path : pathlib.Path
        In the cache, under a key of the file with its weights, of the inputs, of our code and of the runtime.
    """

    path: Path
    _last: float = field(default_factory=time.monotonic)

    @classmethod
    def of(cls, file: OnnxFile, inputs: Mapping[str, np.ndarray]) -> "SavedProgress":
        """Return the place of a file that was read and its inputs."""
        about = {"file": file_digest(file.path), "weights": _digests(file.constants), "inputs": _digests(inputs)}
        return cls._keyed(about, PACKAGES)

    @classmethod
    def of_path(cls, path: Path, runtime: str, inputs: Mapping[str, np.ndarray]) -> "SavedProgress":
        """Return the place of a file, or a folder, of another format, of the runtime with its version, and inputs."""
        held = checksums(path) if path.is_dir() else file_digest(path)
        return cls._keyed({"file": held, "runtime": runtime, "inputs": _digests(inputs)}, ("numpy", "torch"))

    @classmethod
    def _keyed(cls, about: Mapping[str, Any], packages: tuple[str, ...]) -> "SavedProgress":
        return cls(cache_dir() / "inspect" / f"{cache_key(about, ('inspection',), packages)}.progress")

    def load(self) -> dict[str, Any] | None:
        """Return what was saved last; None if nothing was, or it is damaged."""
        try:
            return dict(pickle.loads(self.path.read_bytes()))  # written by `save`, in the user's own cache
        except Exception:  # of any type, by what is damaged: it is judged anew
            return None

    def save(self, state: Mapping[str, Any]) -> None:
        """Save a state in place of the one before, unless that was a moment ago or the disk is full."""
        if time.monotonic() - self._last < EVERY:
            return
        with suppress(OSError, ValueError), atomic(self.path) as draft:
            draft.write_bytes(pickle.dumps(dict(state), pickle.HIGHEST_PROTOCOL))
        self._last = time.monotonic()

    def clear(self) -> None:
        """Remove what was saved: the inspection is done."""
        self.path.unlink(missing_ok=True)


def _digests(arrays: Mapping[str, np.ndarray]) -> dict[str, str]:
    return {name: digest(str(one.dtype), str(one.shape), one.tobytes()) for name, one in arrays.items()}
