"""Converted files, read and run."""

import pytest

from kokoro_nb.backends import BACKENDS
from kokoro_nb.backends.base import Artifact

COREML = BACKENDS["coreml"]


@pytest.fixture(autouse=True)
def coreml():
    """Return the backend, or skip where models cannot be converted."""
    reason = COREML.available()
    if reason is not None:
        pytest.skip(reason)
    return COREML


@pytest.fixture
def spec_of():
    """Return a function that reads the specification of an artefact."""
    import coremltools as ct

    def read(artifact):
        assert isinstance(artifact, Artifact), str(artifact)
        return ct.utils.load_spec(str(artifact.path))

    return read
