"""What the tests of the defects share."""

from functools import cache

import pytest

from kokoro_nb.defects import defect, measure
from tests.test_pins import packages_of


@pytest.fixture(scope="session")
def measured():
    """Each defect by its name, measured once."""
    return cache(lambda name: measure(defect(name)))


@pytest.fixture(scope="session")
def packages():
    """Return a function: the packages that a source imports, but for Python's own modules."""
    own = {"tvm": "apache-tvm", "sherpa_onnx": "sherpa-onnx", "espeakng_loader": "espeakng-loader"}

    return lambda source: {own.get(name, name) for name in packages_of(source)}
