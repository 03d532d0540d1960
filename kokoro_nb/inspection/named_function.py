"""A module of the user's own, made by a function that is named: ``file.py:function``."""

import importlib
import sys
from collections.abc import Mapping
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import ModuleType
from typing import Any

from kokoro_nb.backends.exported import Exported
from kokoro_nb.errors import InputError, one_line
from kokoro_nb.inspection.value_types import refusing
from kokoro_nb.locate.paired_programs import other_program

FORM = "file.py:function or package.module:function"


def made_by(target: str) -> tuple[Any, Mapping[str, Any], tuple[Any, Mapping[str, Any]] | None]:
    """Call the function, and return the module, its inputs, and what the module was rewritten from.

    Parameters
    ----------
    target : str
        ``file.py:function`` or ``package.module:function``. The function takes no arguments and returns
        ``(torch.nn.Module, {name of a parameter of its forward: tensor})``, and as a third what the module was
        rewritten from, another such pair, if it was.

    Raises
    ------
    InputError
        If it cannot be imported or called, or returns something else.
    """
    import torch

    place, _, name = target.rpartition(":")
    if not place or not name:
        raise InputError(f"'{target}' names no function; give {FORM}.")
    function = getattr(_imported(place), name, None)
    if not callable(function):
        raise InputError(f"There is no function '{name}' in {place}; give {FORM}.")
    try:
        made = function()
    except Exception as error:
        raise InputError(f"{target} raised {one_line(error)}") from error
    if not (isinstance(made, tuple) and len(made) in (2, 3) and isinstance(made[1], Mapping)):
        raise InputError(f"{target} has to return a module and a mapping of its inputs, not a {type(made).__name__}.")
    module, inputs, *rest = made
    if not isinstance(module, torch.nn.Module | Exported):
        raise InputError(f"The first of what {target} returns is a {type(module).__name__}, not a torch.nn.Module.")
    reference = other_program(rest[0]) if rest else None
    if rest and reference is None:
        raise InputError(f"The third of what {target} returns has to be a module and a mapping of its inputs.")
    return module, inputs, reference


def _imported(place: str) -> ModuleType:
    with refusing(f"{place} cannot be imported ({{}})."):
        if not place.endswith(".py"):
            return importlib.import_module(place)
        path = Path(place)
        if not path.is_file():
            raise InputError(f"There is no file {path}; give {FORM}.")
        module = ModuleType(path.stem)
        module.__file__ = str(path)
        sys.modules.setdefault(path.stem, module)  # dataclasses look their module up by name
        SourceFileLoader(path.stem, str(path)).exec_module(module)
        return module
