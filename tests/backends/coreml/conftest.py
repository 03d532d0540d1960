"""Converted files, read and run."""

import pytest

from tests.backends.small import present


@pytest.fixture(autouse=True)
def coreml():
    """Return the backend, or skip where models cannot be converted."""
    return present("coreml")


@pytest.fixture
def spec_of():
    """Return a function that reads the specification of an artefact."""
    import coremltools as ct

    def read(artifact):
        return ct.utils.load_spec(str(artifact.path))

    return read
