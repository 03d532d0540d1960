"""What the tests of the defects share."""

import ast
import sys
from functools import cache

import pytest

from kokoro_nb.defects import defect, measure


@pytest.fixture(scope="session")
def measured():
    """Each defect by its name, measured once."""
    return cache(lambda name: measure(defect(name)))


@pytest.fixture(scope="session")
def packages():
    """Return a function: the packages that sources import, but for Python's own modules."""
    own = {"tvm": "apache-tvm", "sherpa_onnx": "sherpa-onnx", "espeakng_loader": "espeakng-loader"}

    def imported(*sources):
        found = set()
        for node in (node for source in sources for node in ast.walk(ast.parse(source))):
            names = [a.name for a in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or "."] if isinstance(node, ast.ImportFrom) else []
            found |= {name.split(".")[0] for name in names}
        return {own.get(name, name) for name in found - set(sys.stdlib_module_names)}

    return imported
