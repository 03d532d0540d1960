"""Kokoro's decoder on TVM, without and with joined operators."""

import numpy as np
import pytest

from kokoro_nb.backends import BACKENDS
from kokoro_nb.backends.exported import export_program
from kokoro_nb.models import stages
from kokoro_nb.models.patches import EXPORT_PATCHES, patched
from kokoro_nb.traces.parity import compare


@pytest.mark.slow
@pytest.mark.parametrize("name", ["tvm", "tvm-unfused"])
def test_the_decoder_from_har_agrees_with_eager(name, narrow, narrow_case, tmp_path):
    tvm, eager = BACKENDS[name], BACKENDS["eager"]
    with patched(narrow.model, EXPORT_PATCHES):
        inputs = stages.from_har_inputs(narrow.model.decoder, narrow_case.decoder_inputs(24))
        exported = export_program(stages.FromHarStage(narrow.model.decoder), inputs)
    program = tvm.load(tvm.export(exported, inputs, tmp_path))
    expected = eager.load(eager.export(exported, inputs)).run(inputs)["output"]
    found = program.run(inputs)["output"]
    assert compare(expected, found).of_peak < 1e-3
    np.testing.assert_array_equal(program.run(inputs)["output"], found)
