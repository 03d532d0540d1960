"""What is diagnosed: a module of the user's own, or Kokoro's decoder, exported, with example inputs."""

import importlib
import importlib.util
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from kokoro_nb.backends.base import Failure
from kokoro_nb.backends.exported import Exported, export_program
from kokoro_nb.errors import InputError
from kokoro_nb.faults import Fault, plant
from kokoro_nb.studies.decoder import spoken_decoder

FORM = "file.py:function or package.module:function"


@dataclass(frozen=True)
class Target:
    """A program and inputs for it.

    Attributes
    ----------
    label : str
        What it is, weights included.
    healthy, candidate : Exported
        The program as it should be, and with the faults that were planted; the same without any.
    inputs : mapping
        Name -> tensor.
    """

    label: str
    healthy: Exported
    candidate: Exported
    inputs: Mapping[str, Any]


def kokoro_decoder(weights: str, seed: int, text: str, frames: int, faults: list[str]) -> Target:
    """Return Kokoro's decoder from `har`, patched for export, with `faults` planted; arguments as on the command line.

    Raises
    ------
    InputError
        If the weights are unknown or a fault fits nowhere.
    """
    planted = [Fault.parse(fault) for fault in faults]
    label, decoder = spoken_decoder(weights, seed, text, frames)
    return _planted(f"decoder from har, {frames} frames, weights {label}", decoder.program, decoder.inputs, planted)


def own_module(target: str, faults: list[str]) -> Target:
    """Return what a function of the user's own makes: a module and example inputs for it.

    Parameters
    ----------
    target : str
        ``file.py:function`` or ``package.module:function``. The function takes no arguments and returns
        ``(torch.nn.Module, {name of a parameter of its forward: tensor})``.
    faults : list of str
        Faults to plant, as `Fault.parse` reads them.

    Raises
    ------
    InputError
        If it cannot be imported or called, returns something else, or the module does not run or export.
    """
    import torch

    planted = [Fault.parse(fault) for fault in faults]
    place, _, name = target.rpartition(":")
    if not place or not name:
        raise InputError(f"'{target}' names no function; give {FORM}.")
    function = getattr(_imported(place), name, None)
    if not callable(function):
        raise InputError(f"There is no function '{name}' in {place}; give {FORM}.")
    try:
        made = function()
    except Exception as error:
        raise InputError(f"{target} raised {type(error).__name__}: {error}") from error
    if not (isinstance(made, tuple) and len(made) == 2 and isinstance(made[1], Mapping)):
        raise InputError(f"{target} has to return a module and a mapping of its inputs, not a {type(made).__name__}.")
    module, inputs = made
    if not isinstance(module, torch.nn.Module):
        raise InputError(f"The first of what {target} returns is a {type(module).__name__}, not a torch.nn.Module.")
    try:
        with torch.no_grad():
            module.eval()(**inputs)
    except Exception as error:
        raise InputError(f"The module of {target} fails in eager PyTorch ({type(error).__name__}: {error}).") from error
    exported = export_program(module, inputs)
    if isinstance(exported, Failure):
        raise InputError(f"The module of {target} cannot be exported: {exported}")
    return _planted(target, exported, inputs, planted)


def _planted(label: str, healthy: Exported, inputs: Mapping[str, Any], faults: list[Fault]) -> Target:
    candidate = healthy
    for fault in faults:
        candidate = plant(candidate, fault)
    return Target(label, healthy, candidate, inputs)


def _imported(place: str) -> ModuleType:
    try:
        if not place.endswith(".py"):
            return importlib.import_module(place)
        path = Path(place)
        if not path.is_file():
            raise InputError(f"There is no file {path}; give {FORM}.")
        specification = importlib.util.spec_from_file_location(path.stem, path)
        assert specification is not None
        assert specification.loader is not None
        module = importlib.util.module_from_spec(specification)
        sys.modules.setdefault(path.stem, module)  # dataclasses look their module up by name
        specification.loader.exec_module(module)
    except InputError:
        raise
    except Exception as error:
        raise InputError(f"{place} cannot be imported ({type(error).__name__}: {error}).") from error
    return module
