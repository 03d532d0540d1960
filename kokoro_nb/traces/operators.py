"""The operators of a program by names that hold on every backend, and which of them are to be captured."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from kokoro_nb.errors import InputError

INPUT = "input:"
CONSTANT = "constant:"
# what these give is there already in what they are given: a fault in them shows in what reads them
_VIEWS = """
_unsafe_view alias chunk clone contiguous detach expand flatten permute reshape select slice split split_with_sizes
squeeze t transpose unbind unflatten unsqueeze view
"""
VIEWS = frozenset(_VIEWS.split())


@dataclass(frozen=True)
class Operator:
    """One operator of an exported program.

    Attributes
    ----------
    name : str
        Path of the module that calls it, the operator, and which call of it there: ``decode.0.norm1.norm:mean#2``.
    op : str
        The operator in full, as PyTorch calls it: ``aten.mean.dim``; of several results, with the place of this one:
        ``aten.split.Tensor[1]``.
    module_path : str
        Path of the module in the eager model; ``""`` for the model itself.
    inputs : tuple of str
        What it is computed from: names of operators, ``input:`` and the name of an input, or ``constant:`` and the
        name of a parameter, buffer or constant.
    shape : tuple of int
        Of its result.
    dtype : str
        Of its result, as NumPy calls it.
    """

    name: str
    op: str
    module_path: str
    inputs: tuple[str, ...]
    shape: tuple[int, ...]
    dtype: str

    @property
    def kind(self) -> str:
        """The operator without namespace and overload: ``mean``."""
        return self.op.split(".")[1] if "." in self.op else self.op


Taps = str | Sequence[str] | Callable[[Operator], bool]


def chosen(operators: Sequence[Operator], taps: Taps = "all") -> tuple[Operator, ...]:
    """Return the requested operators, in the order of execution.

    Parameters
    ----------
    operators : sequence of Operator
        All that there are.
    taps : str, sequence of str or callable
        ``"all"``, names, or a predicate on an `Operator`.

    Raises
    ------
    InputError
        If a name is unknown; it says which ones come near.
    """
    if callable(taps):
        return tuple(operator for operator in operators if taps(operator))
    if taps == "all":
        return tuple(operators)
    names = [taps] if isinstance(taps, str) else list(taps)
    known = {operator.name for operator in operators}
    for name in names:
        if name not in known:
            raise InputError(f"The program has no operator '{name}'{_near(name, known)}.")
    return tuple(operator for operator in operators if operator.name in names)


def _near(name: str, known: set[str]) -> str:
    from difflib import get_close_matches

    close = get_close_matches(name, known, n=3)
    return f"; did you mean {', '.join(close)}" if close else "; see the names in the `operators` of the program"
