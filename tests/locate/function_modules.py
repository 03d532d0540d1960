"""A function as a module, and the first operator that is wrong."""

from torch import nn

from kokoro_nb.locate.verdicts import divergences, first_nonfinite


def first_divergence(reference, candidate):
    """Return the first operator that is wrong by itself, or the statement that none is."""
    found = divergences(reference, candidate)
    return found[0] if found else first_nonfinite(reference, candidate)


class Function(nn.Module):
    """A function of one or two tensors as a module."""

    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, x, w=None):
        return self.function(x) if w is None else self.function(x, w)
