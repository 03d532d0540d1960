"""A module that is small and has a place for every kind of fault."""

import pytest
import torch

from kokoro_nb.backends.exported import export_program
from tests.backends.small import results
from tests.corpus.programs import Tiny, tiny_inputs


@pytest.fixture(scope="package")
def inputs():
    """Return the inputs of `Tiny`."""
    return tiny_inputs()


@pytest.fixture(scope="package")
def exported(inputs):
    """Return `Tiny`, exported."""
    return export_program(Tiny(), inputs)


@pytest.fixture(scope="package")
def values(inputs):
    """Return a function that runs an exported program and returns the results of its operators, in order."""
    return lambda exported: {name: torch.from_numpy(one) for name, one in results(exported, inputs).items()}


@pytest.fixture(scope="package")
def healthy(exported, values):
    """Return the results of the operators of the healthy program."""
    return values(exported)
