"""The trace of a runtime that shows nothing of what it computes on the way: its outputs, and everything missing."""

from abc import ABC, abstractmethod
from pathlib import Path

import numpy as np

from kokoro_nb.backends.signature import Arrays, TensorSpec, checked
from kokoro_nb.backends.taps import read_taps
from kokoro_nb.traces.operators import Taps
from kokoro_nb.traces.trace import Keep, Trace

HOW = "not at all: this runtime shows no results but the outputs; compile the program with further outputs"


class Untraced(ABC):
    """A program of such a runtime, loaded from `path`; the list of its operators is beside the model file."""

    backend: str
    path: Path
    inputs: tuple[TensorSpec, ...]

    @abstractmethod
    def run(self, inputs: Arrays) -> dict[str, np.ndarray]:
        """Run once: see `base.Program.run`."""

    def trace(self, inputs: Arrays, taps: Taps = "all", keep: Keep = "stats") -> Trace:
        """Run once, with nothing captured: see `base.Program.trace`."""
        recorder = read_taps(self.path.parent).recorder(taps, keep)
        return recorder.trace(self.backend, checked(inputs, self.inputs), self.run(inputs), HOW)
