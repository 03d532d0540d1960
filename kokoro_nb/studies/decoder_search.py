"""The decoder on one backend, searched for its first wrong operator: what `kokoro-nb localise` does."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kokoro_nb.backends import backend
from kokoro_nb.backends.base import Failure, running
from kokoro_nb.errors import InputError
from kokoro_nb.faults import Fault, plant
from kokoro_nb.findings import Verdict
from kokoro_nb.locate import Investigation, investigate, reference_trace
from kokoro_nb.locate.bisection import Bisection, bisect
from kokoro_nb.locate.culprit_bundle import write_finding_bundle
from kokoro_nb.storage import json_ready
from kokoro_nb.studies.decoder import decoder_from_har


@dataclass(frozen=True)
class DecoderSearch:
    """What was found.

    Attributes
    ----------
    weights : str
        Label of the weights.
    frames : int
        Length of the decoder, 40 to the second.
    planted : tuple of str
        Faults that were planted first.
    found : Investigation or Bisection
        Of a runtime that shows its operators, or of one that had to be cut.
    """

    weights: str
    frames: int
    planted: tuple[str, ...]
    found: Investigation | Bisection

    @property
    def verdict(self) -> Verdict:
        """``fail`` if an operator is wrong, ``pass`` if none is, else ``unknown``."""
        return self.found.culprit.verdict if isinstance(self.found, Investigation) else self.found.verdict

    def as_dict(self) -> dict[str, Any]:
        """Return everything as plain values that JSON holds."""
        about = {
            "backend": self.found.backend,
            "weights": self.weights,
            "stage": "decoder from har",
            "frames": self.frames,
            "planted": self.planted,
            "verdict": self.verdict,
        }
        if isinstance(self.found, Bisection):
            searches = [
                {
                    "verdict": one.verdict,
                    "operators": one.operators,
                    "compilations": one.compilations,
                    "at most": one.limit,
                }
                | {"statement": one.statement}
                for one in self.found.searches
            ]
            return json_ready({**about, "method": "bisection", "tap": self.found.culprits[:1], "searches": searches})
        found = self.found
        return json_ready(
            {**about, "method": found.candidate.how, "finding": found.culprit.as_dict()}
            | {"faults": [fault.as_dict() for fault in found.faults], "trace": found.as_dict()}
            | {"missing": found.candidate.missing}
        )

    def describe(self) -> str:
        """Return what was found as text for a terminal."""
        head = f"{self.found.backend}, decoder from har, {self.frames} frames, weights {self.weights}"
        lines = [head, *(f"planted: {fault}" for fault in self.planted)]
        if isinstance(self.found, Bisection):
            return "\n".join([*lines, *(one.statement for one in self.found.searches)])
        lines.append(self.found.culprit.statement)
        for fault in self.found.faults:
            lines.append(f"  {fault.tap and fault.tap.name} ({fault.tap and fault.tap.op}): {fault.channels}")
            lines.append(f"    local {fault.local_error:.3g}, inherited {fault.inherited_error:.3g} of the peak")
            lines += [f"    suspect: {one.cause} ({'; '.join(one.speaks_for)})" for one in fault.suspects]
        seen = self.found.as_dict()
        return "\n".join([*lines, f"{seen['captured']} operators captured, {seen['not captured']} not: {seen['how']}"])


def localise_decoder(
    name: str,
    weights: str = "narrow",
    seed: int = 0,
    text: str = "Hello world, this is a test.",
    frames: int = 24,
    reference: str = "eager",
    faults: Sequence[str] = (),
    bundle: str | Path | None = None,
) -> DecoderSearch:
    """Search the patched decoder, from `har`, for its first wrong operator on a backend.

    Parameters
    ----------
    name : str
        Key of `BACKENDS`.
    weights, seed
        As for `load_model`; the seed also draws the source's noise.
    text : str
        What is spoken.
    frames : int
        Length, 40 to the second.
    reference : str
        ``eager`` or ``eager-float64``: what the inherited error is measured against.
    faults : sequence of str
        Faults to plant first, as `Fault.parse` reads them.
    bundle : path, optional
        Where to write what reproduces the finding, if there is one: see `finding_bundle`.

    Raises
    ------
    InputError
        If a name is unknown, a fault fits nowhere, or the backend is not here or cannot export the decoder.
    """
    planted = [Fault.parse(fault) for fault in faults]
    runtime = running(backend(name))
    decoder = decoder_from_har(weights, seed, text, frames)
    label, healthy, from_har = decoder.label, decoder.exported, decoder.inputs
    candidate = healthy
    for fault in planted:
        candidate = plant(candidate, fault)
    if _opaque(name):
        return DecoderSearch(label, frames, tuple(faults), bisect(candidate, from_har, runtime))
    known = reference_trace(healthy, from_har, reference)
    found = investigate(candidate, from_har, name, known)
    if isinstance(found, Failure):
        raise InputError(f"The decoder cannot be looked into on {name}: {found}")
    if bundle is not None and found.culprit.tap is not None:
        write_finding_bundle(found.culprit, candidate, healthy, known, bundle)
    return DecoderSearch(label, frames, tuple(faults), found)


def _opaque(name: str) -> bool:
    """Return whether a delegate computes the program out of sight, so that it is cut instead of tapped."""
    return name.startswith("executorch-") and name != "executorch-portable"
