"""The files that ship, executed."""

import numpy as np
import pytest
import torch
from torch import nn

from kokoro_nb.backends.base import Artifact
from kokoro_nb.backends.coreml import CoreMl
from kokoro_nb.backends.mil.reference import CoreMlReference
from kokoro_nb.backends.mil.rounding import FLOAT64, STRICT

# from a trace: of an exported program coremltools takes no LSTM
REFERENCE = CoreMlReference("coreml-reference-float32", CoreMl("traced-float32", "trace", precision="float32"))
HALF = CoreMlReference("coreml-reference", CoreMl("coreml-trace", "trace"))
pytestmark = pytest.mark.skipif(REFERENCE.available() is not None, reason=str(REFERENCE.available()))


class Layers(nn.Module):
    """Some of what a speech model has."""

    output_names = ("sound", "length")

    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(10, 8)
        self.lstm = nn.LSTM(8, 6, batch_first=True, bidirectional=True)
        self.norm = nn.LayerNorm(12)
        self.up = nn.ConvTranspose1d(12, 4, 4, stride=2, padding=1)
        self.convolution = nn.Conv1d(4, 2, 3, padding=1)

    def forward(self, ids, style):
        x, _ = self.lstm(self.table(ids))
        x = self.norm(torch.nn.functional.gelu(x)) * style
        x = torch.nn.functional.leaky_relu(self.up(x.transpose(1, 2)), 0.1)
        return torch.tanh(self.convolution(x)), ids.sum(dim=1)


@pytest.fixture(scope="module")
def layers():
    torch.manual_seed(0)
    module = Layers().eval()
    inputs = {"ids": torch.tensor([[1, 5, 0, 9]]), "style": torch.randn(1, 1, 12)}
    with torch.no_grad():
        expected = module.double()(inputs["ids"], inputs["style"].double())
    return module.float(), inputs, expected


def test_one_artefact_for_all_who_read_it(layers, tmp_path):
    module, inputs, _ = layers
    theirs = REFERENCE.converter.export(module, inputs, tmp_path)
    ours = REFERENCE.export(module, inputs, tmp_path)
    assert isinstance(ours, Artifact)
    assert (ours.backend, ours.cached) == ("coreml-reference-float32", True)
    assert ours.path == theirs.path
    assert REFERENCE.executes() is None


# Of the peak. float32: rounding of some 100 sums. float16: its half step is 5e-4, and rounding at every step adds up.
@pytest.mark.parametrize(
    ("backend", "tolerance"),
    [
        (REFERENCE, 2e-6),
        (CoreMlReference("exact", REFERENCE.converter, FLOAT64), 1e-7),  # weights are float32 in the file
        (HALF, 5e-3),
        (CoreMlReference("strict", HALF.converter, STRICT), 2e-2),
    ],
    ids=lambda value: getattr(value, "name", ""),
)
def test_layers_in_every_arithmetic(layers, backend, tolerance, tmp_path_factory):
    module, inputs, (sound, length) = layers
    program = backend.load(backend.export(module, inputs, tmp_path_factory.getbasetemp() / "layers"))
    seen = []
    outputs = program.run(inputs, observe=lambda kind, *_: seen.append(kind))
    error = np.abs(outputs["sound"] - sound.numpy()).max() / sound.abs().max()
    assert error < tolerance
    assert (error > 1e-5) == (backend.converter is HALF.converter)
    assert outputs["length"].tolist() == length.tolist() == [15]
    assert outputs["length"].dtype == np.int32
    assert {"gather", "lstm", "layer_norm", "gelu", "conv_transpose", "conv"} <= set(seen)
