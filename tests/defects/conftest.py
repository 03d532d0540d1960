"""What the tests of the defects share."""

from functools import cache

import pytest

from kokoro_nb.defects import defect, measure


@pytest.fixture(scope="session")
def measured():
    """Each defect by its name, measured once."""
    return cache(lambda name: measure(defect(name)))
