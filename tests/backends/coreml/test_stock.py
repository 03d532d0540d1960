"""The file is the one that the documented call makes in a process that never saw this package."""

import subprocess
import sys

import pytest

from kokoro_nb.backends.coreml import CoreMl

MODULES = """
import torch
from torch import nn

torch.manual_seed(0)


class Lookup(nn.Module):
    def __init__(self):
        super().__init__()
        self.table, self.norm = nn.Embedding(10, 8), nn.LayerNorm(8)

    def forward(self, ids, mask, gain):
        return self.norm(self.table(ids)) * mask[:, :, None] * gain, (ids + 1, mask.logical_not())


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.q, self.k, self.v = nn.Linear(8, 8), nn.Linear(8, 8), nn.Linear(8, 8)

    def forward(self, x):
        q, k, v = (one(x).unflatten(2, (2, 4)).transpose(1, 2) for one in (self.q, self.k, self.v))
        return nn.functional.scaled_dot_product_attention(q, k, v)


class Phase(nn.Module):
    def forward(self, real, imag):
        first, second = torch.cat([real, imag], 1).chunk(2, 1)
        return torch.atan2(second, first).cumsum(-1).sin(), (first > 0).float().mean()


X = torch.randn(1, 4, 8)
CASES = {
    "layers": (nn.Sequential(nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 3)), {"input": X}),
    "generator": (
        nn.Sequential(nn.ConvTranspose1d(4, 4, 4, 2, 1), nn.LeakyReLU(0.1), nn.InstanceNorm1d(4), nn.GELU()),
        {"input": X},
    ),
    "lookup": (
        Lookup(),
        {"ids": torch.tensor([[1, 5, 9]]), "mask": torch.tensor([[True, False, True]]), "gain": torch.tensor(0.5)},
    ),
    "attention": (Attention(), {"x": X}),
    "phase": (Phase(), {"real": X, "imag": X + 1}),
}
"""
STOCK = """
import sys

import coremltools as ct
import numpy as np

for name, (module, inputs) in CASES.items():
    given = tuple(inputs.values())
    with torch.no_grad():
        program = torch.export.export(module.eval(), given).run_decompositions({})
        traced = torch.jit.trace(module.eval(), given)
    types = [
        ct.TensorType(name=key, shape=one.shape or (1,), dtype=np.int32 if one.dtype == torch.int64 else np.float32)
        for key, one in inputs.items()
    ]
    full = {"compute_precision": ct.precision.FLOAT32}
    made = {
        "coreml": ct.convert(program, skip_model_load=True),
        "coreml-float32": ct.convert(program, skip_model_load=True, **full),
        "coreml-trace": ct.convert(traced, inputs=types, skip_model_load=True),
        "iOS17": ct.convert(program, skip_model_load=True, minimum_deployment_target=ct.target.iOS17),
    }
    for kind, model in made.items():
        model.save(f"{sys.argv[1]}/{name}-{kind}.mlpackage")
assert not any(module.startswith("kokoro") for module in sys.modules)
"""
OURS = {
    "coreml": CoreMl("coreml"),
    "coreml-float32": CoreMl("coreml-float32", precision="float32"),
    "coreml-trace": CoreMl("coreml-trace", route="trace"),
    "iOS17": CoreMl("iOS17", target="iOS17"),
}
NAMES = ("layers", "generator", "lookup", "attention", "phase")


@pytest.fixture(scope="module")
def stock(tmp_path_factory):
    """Return the folder of the files that the plain calls make."""
    folder = tmp_path_factory.mktemp("stock")
    subprocess.run([sys.executable, "-c", MODULES + STOCK, str(folder)], check=True, capture_output=True, cwd=folder)
    return folder


@pytest.fixture(scope="module")
def cases(tmp_path_factory):
    """Return the same modules here; a conversion that failed before has left nothing in coremltools' names."""
    scope: dict = {}
    exec(MODULES, scope)
    OURS["coreml"].export(*scope["CASES"]["layers"], tmp_path_factory.mktemp("first"))
    return scope["CASES"]


def content(path):
    """Return the specification of a saved model without its date, and its weights."""
    import coremltools as ct

    spec = ct.utils.load_spec(str(path))
    spec.description.metadata.userDefined.pop("com.github.apple.coremltools.conversion_date", None)
    weights = {one.name: one.read_bytes() for one in path.rglob("*.bin")}
    return spec.SerializeToString(deterministic=True), weights


@pytest.mark.parametrize("kind", OURS)
@pytest.mark.parametrize("name", NAMES)
def test_the_file_is_that_of_the_plain_call(name, kind, stock, cases, coreml, tmp_path):
    made = OURS[kind].export(*cases[name], tmp_path)
    assert content(made.path) == content(stock / f"{name}-{kind}.mlpackage")
