"""A program whose random numbers are inputs: what cures an export that draws them once, or that cannot draw at all."""

from typing import Any

import torch
from torch import nn
from torch.overrides import TorchFunctionMode

from kokoro_nb.backends.signature import Arrays, example_inputs
from kokoro_nb.errors import InputError

DRAWS = (torch.randn, torch.rand, torch.randn_like, torch.rand_like)
NAME = "noise_{}"


class _Recorded(TorchFunctionMode):
    """Notes what is drawn."""

    def __init__(self) -> None:
        super().__init__()
        self.drawn: list[torch.Tensor] = []

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        if func in DRAWS:
            self.drawn.append(result)
        return result


class _Given(TorchFunctionMode):
    """Gives tensors, in turn, in the place of what would be drawn."""

    def __init__(self, values: list[torch.Tensor]) -> None:
        super().__init__()
        self.left = values

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return self.left.pop(0) if func in DRAWS else func(*args, **(kwargs or {}))


class NoiseAsInput(nn.Module):
    """A module that takes what it would draw as the inputs ``noise_0``, ``noise_1``, ..., in the order of its draws."""

    def __init__(self, module: nn.Module, count: int) -> None:
        super().__init__()
        self.module, self.count = module, count

    def forward(self, **values: torch.Tensor) -> Any:
        """Return what the module returns, with the noise that is given."""
        noise = [values.pop(NAME.format(place)) for place in range(self.count)]
        with _Given(noise):
            return self.module(**values)


def noise_as_input(module: nn.Module, inputs: Arrays) -> tuple[nn.Module, dict[str, Any]]:
    """Return a module that takes its noise as inputs, and its inputs with one draw (seed 0).

    Parameters
    ----------
    module : torch.nn.Module
        May call ``torch.randn``, ``rand``, ``randn_like`` and ``rand_like``.
    inputs : mapping
        Name of a parameter of its forward -> array or tensor.

    Raises
    ------
    InputError
        If it calls none of them.
    """
    values = {name: torch.from_numpy(array) for name, array in example_inputs(module, inputs).items()}
    recorded = _Recorded()
    with torch.random.fork_rng(devices=[]), torch.no_grad(), recorded:
        torch.manual_seed(0)
        module(**values)
    if not recorded.drawn:
        raise InputError("The module calls no function that draws random numbers; there is no noise to make an input.")
    noise = {NAME.format(place): value for place, value in enumerate(recorded.drawn)}
    return NoiseAsInput(module, len(noise)), {**inputs, **noise}
