"""A module with all that Core ML has no name or dtype for, and converted files read and run."""

from dataclasses import replace

import pytest
import torch
from torch import nn

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


class Names(nn.Module):
    """Names and dtypes that Core ML does not have: a reserved word, a scalar, a point, an input's name."""

    def forward(self, list, step, mask, ids):
        return {"list": list + step, "x.y": mask.logical_not(), "x_y": ids + 1, "0": step, "é": list.sum()}


@pytest.fixture
def names():
    """Return a module with awkward names, its inputs, and its outputs."""
    inputs = {
        "list": torch.ones(2, 3),
        "step": torch.tensor(2.0),
        "mask": torch.tensor([True, False]),
        "ids": torch.tensor([1, -5]),
    }
    return Names(), inputs, {name: value.numpy() for name, value in Names()(**inputs).items()}
