"""Imports that are quicker without what nobody here uses."""

import sys
from contextlib import suppress
from importlib import import_module
from importlib.util import find_spec, module_from_spec
from typing import Any


def import_jsonschema() -> None:
    """Import jsonschema, if it is there, without the grammar of addresses that it builds for one second or more.

    nbformat and, far below the package `kokoro`, csvw import it. Neither a notebook nor a table has such an address
    in a place where a schema asks for one.
    """
    grammar = "rfc3987_syntax"
    known = grammar in sys.modules
    if not known:
        sys.modules[grammar] = None  # type: ignore[assignment]  # what imports it takes it for not installed
    try:
        with suppress(ImportError):
            import_module("jsonschema")  # a dependency of theirs, not ours
    finally:
        if not known:
            del sys.modules[grammar]


def postpone_spacy() -> None:
    """Have spaCy, if it is there, imported when something of it is used: it takes more than a second.

    The package `kokoro` imports misaki's English, which uses spaCy where it turns text into phonemes and nowhere else.
    Python's own lazy module is imported by whatever looks through all modules for a file name; this one is not.
    """
    spec = None if "spacy" in sys.modules else find_spec("spacy")
    if spec is None or spec.loader is None or spec.submodule_search_locations is None:
        return
    loader, module = spec.loader, module_from_spec(spec)
    path = module.__dict__.pop("__path__")  # what imports a part of it asks for that first

    def imported(name: str) -> Any:
        if name.startswith("__") and name != "__path__":  # asked of any module
            raise AttributeError(name)
        if module.__dict__.pop("__getattr__", None) is not None:
            module.__dict__["__path__"] = path
            loader.exec_module(module)
        return getattr(module, name)

    module.__dict__["__getattr__"] = imported
    sys.modules["spacy"] = module
