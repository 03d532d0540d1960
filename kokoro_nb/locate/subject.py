"""What is diagnosed: a program, what it should compute, its inputs and the runtime."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kokoro_nb.backends.base import Backend
from kokoro_nb.backends.exported import Exported
from kokoro_nb.backends.ladder import loaded, outputs_of
from kokoro_nb.backends.signature import Arrays, checked
from kokoro_nb.traces.trace import Trace


@dataclass(frozen=True, eq=False)
class Subject:
    """A program on a runtime.

    Attributes
    ----------
    runtime : Backend
        Where it runs.
    candidate, healthy : Exported
        What the runtime is given, and what it should compute; the same for a fault of the runtime itself.
    inputs : mapping
        Array or tensor of each input by its name.
    folder : path or None
        Where artefacts are saved.
    limit : float or None
        What is allowed of the outputs' error, of the peak; None where it is derived.
    reference : Trace or None
        Of PyTorch; None where nothing was traced.
    """

    runtime: Backend
    candidate: Exported
    healthy: Exported
    inputs: Arrays
    folder: str | Path | None = None
    limit: float | None = None
    reference: Trace | None = None

    @property
    def known(self) -> Trace:
        """What is right: the trace of PyTorch, or, where there is none, the program as it should be."""
        if self.reference is not None:
            return self.reference
        meaning = self.healthy.specification
        meaning = meaning.named_by or meaning
        return Trace("eager-float64", (), inputs=checked(self.inputs, self.healthy.inputs), meaning=meaning)

    def outputs(self, candidate: Exported | None = None, runtime: Backend | None = None) -> Any:
        """Return the outputs of the program, or of another form of it, on the runtime or on another; or a failure.

        Returns
        -------
        dict of numpy.ndarray or Failure
        """
        runtime = runtime or self.runtime
        program = loaded(runtime, candidate or self.candidate, self.inputs, self.folder)
        return outputs_of(runtime, program, self.inputs)
