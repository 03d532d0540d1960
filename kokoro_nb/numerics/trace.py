"""What passes the parts of a model, on any backend: whole tensors, by module path."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from kokoro_nb.errors import InputError
from kokoro_nb.numerics.statistics import Statistics, describe

OUTPUT = "output"


@dataclass(frozen=True)
class Tap:
    """One captured tensor.

    Attributes
    ----------
    name : str
        Module path in the eager model, or the name of a cut.
    statistics : Statistics
        Of the whole tensor.
    value : numpy.ndarray
        The tensor itself.
    """

    name: str
    statistics: Statistics
    value: np.ndarray


@dataclass(frozen=True)
class Trace:
    """Taps in the order of execution, and what was asked for and not captured."""

    backend: str
    taps: tuple[Tap, ...]
    missing: tuple[str, ...] = ()

    def __getitem__(self, name: str) -> Tap:
        for tap in self.taps:
            if tap.name == name:
                return tap
        raise InputError(f"The trace has no tap '{name}'; it has {', '.join(tap.name for tap in self.taps)}.")

    @property
    def first_nonfinite(self) -> Tap | None:
        """The first tap in order that is not wholly finite; None if all are."""
        return next((tap for tap in self.taps if tap.statistics.finite != 1), None)


def tapped(module: Any, names: Sequence[str]) -> Any:
    """Wrap `module` so that it also returns the outputs of its submodules `names`, on every backend alike.

    Parameters
    ----------
    module : torch.nn.Module
        Returns one tensor, or a dict of tensors of which one is called ``output``.
    names : sequence of str
        Module paths inside it whose output is one tensor, or a tuple of which the first is kept.

    Returns
    -------
    torch.nn.Module
        Its forward returns a dict: the module's own output under ``output``, then each tap.
    """
    from torch import nn

    paths = {name for name, _ in module.named_modules()}
    unknown = [name for name in names if name not in paths]
    if unknown:
        raise InputError(f"The module has no part '{unknown[0]}'; use paths of its named_modules().")

    class Tapped(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.module = module

        def forward(self, *args: Any) -> dict[str, Any]:
            seen: dict[str, Any] = {}
            inside = dict(self.module.named_modules())  # of this copy: backends export a copy of the module
            hooks = [inside[name].register_forward_hook(_keep(seen, name)) for name in names]
            try:
                output = self.module(*args)
            finally:
                for hook in hooks:
                    hook.remove()
            cuts = output if isinstance(output, dict) else {OUTPUT: output}
            return {**seen, **cuts}  # blocks in the order of execution, then the cuts

    return Tapped()


def trace_of(backend: str, outputs: Mapping[str, np.ndarray], asked: Sequence[str] = ()) -> Trace:
    """Make a `Trace` of a program's outputs, the module's own output last.

    Parameters
    ----------
    backend : str
        Name of the backend that ran it.
    outputs : mapping
        What ``program.run`` returned for a module wrapped by `tapped`.
    asked : sequence of str
        The names that were asked for, so that what is missing can be told.
    """
    order = [name for name in outputs if name != OUTPUT] + [name for name in outputs if name == OUTPUT]
    taps = tuple(Tap(name, describe(outputs[name]), outputs[name]) for name in order)
    return Trace(backend, taps, tuple(name for name in asked if name not in outputs))


def _keep(seen: dict[str, Any], name: str) -> Callable[[Any, Any, Any], None]:
    def hook(_module: Any, _args: Any, output: Any) -> None:
        # a copy: an operator that writes in place (the generator's `xs += ...`) would change the capture afterwards
        first = output[0] if isinstance(output, tuple) else output
        seen[name] = first * 1.0

    return hook
