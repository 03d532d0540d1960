"""The first operator that is wrong."""

from kokoro_nb.locate.verdicts import divergences, first_nonfinite


def first_divergence(reference, candidate):
    """Return the first operator that is wrong by itself; None if none is."""
    found = divergences(reference, candidate)
    return found[0] if found else first_nonfinite(reference, candidate)
