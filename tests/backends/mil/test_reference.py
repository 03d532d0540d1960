"""The files that ship, executed."""

import pytest
import torch

from kokoro_nb.backends.base import Artifact
from kokoro_nb.backends.coreml import CoreMl
from kokoro_nb.backends.mil.reference import CoreMlReference
from tests.backends.small import Of

REFERENCE = CoreMlReference("coreml-reference-float32", CoreMl("coreml-float32", precision="float32"))
pytestmark = pytest.mark.skipif(REFERENCE.available() is not None, reason=str(REFERENCE.available()))


def test_one_artefact_for_all_who_read_it(tmp_path):
    module, inputs = Of(torch.sin), {"x": torch.ones(2, 3)}
    theirs = REFERENCE.converter.export(module, inputs, tmp_path)
    ours = REFERENCE.export(module, inputs, tmp_path)
    assert isinstance(ours, Artifact)
    assert (ours.backend, ours.cached) == ("coreml-reference-float32", True)
    assert ours.path == theirs.path
    assert REFERENCE.executes() is None
