"""The files that ship, executed."""

import numpy as np
import pytest
import torch
from torch import nn

from kokoro_nb.backends.base import Artifact, Failure, quietly
from kokoro_nb.backends.coreml import CoreMl
from kokoro_nb.backends.mil.interpreter import Interpreter
from kokoro_nb.backends.mil.reference import CoreMlReference
from kokoro_nb.backends.mil.rounding import FLOAT64, STRICT
from kokoro_nb.backends.mil.saved_program import load_program, operator_types

# from a trace: of an exported program coremltools takes no LSTM
REFERENCE = CoreMlReference("coreml-reference-float32", CoreMl("traced-float32", "trace", precision="float32"))
HALF = CoreMlReference("coreml-reference", CoreMl("coreml-trace", "trace"))
pytestmark = pytest.mark.skipif(REFERENCE.available() is not None, reason=str(REFERENCE.available()))


class Of(nn.Module):
    """A module of one function."""

    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, x):
        return self.function(x)


def _saved(function, x, path):
    """Convert a function with nothing but coremltools' defaults, save it, and read the file back."""
    import coremltools as ct

    program = torch.export.export(Of(function), (x,)).run_decompositions({})
    with quietly():
        model = ct.convert(
            program,
            minimum_deployment_target=ct.target.iOS17,
            compute_precision=ct.precision.FLOAT32,
            skip_model_load=True,
        )
        model.save(str(path))
    return Interpreter(load_program(path).program)


def test_a_reciprocal_is_off_by_an_epsilon_in_the_file_and_a_quotient_is_not(tmp_path):
    # coremltools writes torch's reciprocal as MIL's inverse, whose epsilon is 1e-4 where none is given.
    x = torch.tensor([[1.0, 0.5, 1e-3, 1e-4]])
    (wrong,) = _saved(torch.reciprocal, x, tmp_path / "reciprocal.mlpackage").run({"x": x.numpy()}).values()
    np.testing.assert_allclose(wrong, 1 / (x + 1e-4), rtol=1e-6)
    assert wrong[0, -1] == pytest.approx(5000, rel=1e-5)  # 1 / 1e-4 is 10 000
    ones = torch.ones_like(x)
    (right,) = _saved(lambda x: ones / x, x, tmp_path / "quotient.mlpackage").run({"x": x.numpy()}).values()
    np.testing.assert_allclose(right, 1 / x, rtol=1e-6)


def test_an_exported_gelu_loses_its_approximation_in_the_file(tmp_path):
    # coremltools reads the positional arguments of an exported gelu alone, and torch writes `approximate` as a keyword.
    gelu, x = torch.nn.functional.gelu, torch.linspace(-4, 4, 400)[None]
    file = _saved(lambda x: gelu(x, approximate="tanh"), x, tmp_path / "gelu.mlpackage")
    (y,) = file.run({"x": x.numpy()}).values()
    np.testing.assert_allclose(y, gelu(x), atol=1e-6)
    assert 4e-4 < np.abs(y - gelu(x, approximate="tanh").numpy()).max() < 5e-4


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


class Step(nn.Module):
    """One step of a streaming transformer: attention over a cache that is an input, rotary positions, a gated layer."""

    output_names = ("y", "keys", "values")

    def __init__(self):
        super().__init__()
        self.into, self.out = nn.Linear(8, 24), nn.Linear(8, 8)
        self.norm, self.wide, self.narrow = nn.LayerNorm(8), nn.Linear(8, 32), nn.Linear(32, 8)

    def forward(self, x, keys, values, position):
        q, k, v = self.into(self.norm(x)).reshape(1, 2, 3, 2, 4).unbind(2)
        place = position + torch.arange(2)
        angle = place[:, None, None] * torch.tensor([1.0, 0.1])
        q, k = self._turned(q, angle), self._turned(k, angle)
        mine = (torch.arange(6)[:, None] == place).to(x.dtype)  # written by a product: place is known at run time alone
        kept = (1 - mine.sum(-1))[None, :, None, None]
        keys = keys * kept + torch.einsum("pt,bthd->bphd", mine, k)
        values = values * kept + torch.einsum("pt,bthd->bphd", mine, v)
        seen = torch.arange(6) <= place[:, None]
        heads = (tensor.transpose(1, 2) for tensor in (q, keys, values))
        x = x + self.out(nn.functional.scaled_dot_product_attention(*heads, seen).transpose(1, 2).reshape(1, 2, 8))
        return x + self.narrow(nn.functional.gelu(self.wide(x))), keys, values

    def _turned(self, x, angle):
        even, odd = x[..., ::2], x[..., 1::2]
        cosine, sine = torch.cos(angle), torch.sin(angle)
        return torch.stack([even * cosine - odd * sine, even * sine + odd * cosine], dim=-1).flatten(-2)


@pytest.mark.parametrize("target", [None, "iOS17", "iOS18"])
def test_a_streaming_step_with_its_cache(tmp_path, target):
    torch.manual_seed(0)
    module, backend = Step().eval(), CoreMlReference("step", CoreMl("coreml-step", "export", "float32", target))
    inputs = {
        "x": torch.randn(1, 2, 8),
        "keys": torch.randn(1, 6, 2, 4),
        "values": torch.randn(1, 6, 2, 4),
        "position": torch.tensor([0]),
    }
    made = backend.export(module, inputs, tmp_path)
    program = backend.load(made)
    for position in (0, 3):
        state = {**inputs, "position": torch.tensor([position])}
        outputs = program.run(state)
        with torch.no_grad():
            expected = module(*state.values())
        for name, value in zip(Step.output_names, expected, strict=True):
            np.testing.assert_allclose(outputs[name], value, atol=2e-6)
    attention = "scaled_dot_product_attention" if target == "iOS18" else "softmax"
    assert operator_types(made.path)[attention] == 1


def test_a_failure_is_its_own(tmp_path):
    class DataDependent(nn.Module):
        def forward(self, x):
            return x if x.sum() > 0 else -x

    failure = REFERENCE.export(DataDependent(), {"x": torch.ones(3)}, tmp_path)
    assert isinstance(failure, Failure)
    assert (failure.backend, failure.rung) == ("coreml-reference-float32", "exported")
