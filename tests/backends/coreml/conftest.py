"""Converted files, read and run."""

from dataclasses import replace

import pytest

from kokoro_nb.backends import BACKENDS
from kokoro_nb.backends.base import Artifact
from kokoro_nb.backends.mil.reference import CoreMlReference

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


@pytest.fixture
def run(tmp_path):
    """Return a function that converts a module and runs the file on the reference."""

    def convert_and_run(module, inputs, route="export", precision="float32"):
        reference = CoreMlReference("reference", replace(COREML, route=route, precision=precision))
        return reference.load(reference.export(module, inputs, tmp_path)).run(inputs)

    return convert_and_run
