"""Imports that are quicker without what nobody here uses."""

import sys
from contextlib import suppress
from importlib import import_module


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
