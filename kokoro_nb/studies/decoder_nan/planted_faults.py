"""Faults that are planted in the program: one diagnosis after the other, since what each captures is large."""

from collections.abc import Sequence
from dataclasses import replace

from kokoro_nb.locate import Diagnosis, diagnose
from kokoro_nb.studies.decoder import DecoderProgram


def planted_faults(
    healthy: DecoderProgram, faults: Sequence[str], backends: Sequence[str]
) -> dict[tuple[str, str], Diagnosis]:
    """Diagnose the program with each fault on each backend.

    All tensors of a run are kept of the first one alone, which for that is made last: at full size they are 0.7 GB.

    Returns
    -------
    dict
        (fault, backend) -> diagnosis, in this order.
    """
    first, *others = [(fault, name) for fault in faults for name in backends]

    def diagnosed(fault: str, name: str) -> Diagnosis:
        return diagnose(healthy.planted([fault]), healthy.inputs, name, healthy.reference, "tracing")

    found = {each: replace(diagnosed(*each), investigation=None, subject=None) for each in others}
    return {first: diagnosed(*first), **found}
