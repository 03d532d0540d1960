import json
import os
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from kokoro_nb.backends.base import Failure
from kokoro_nb.run_apart import run_apart
from tests.backends.small import present

DEPLOYED = """
import json, sys
from pathlib import Path
import numpy as np
from kokoro_nb.backends import backend
from kokoro_nb.backends.base import Artifact
from kokoro_nb.backends.signature import TensorSpec

name, path, folder = sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3])
inputs = dict(np.load(folder / "inputs.npz"))
specs = tuple(TensorSpec(one, array.shape, str(array.dtype)) for one, array in inputs.items())
outputs = backend(name).load(Artifact(name, path, specs, ("audio", "mask", "a/b"))).run(inputs)
np.savez(folder / "outputs.npz", *outputs.values())
(folder / "modules.json").write_text(json.dumps(sorted(sys.modules)))
"""


class Block(nn.Module):
    """A convolution and a norm, integers and truth values, and an output of another name than its input's."""

    def __init__(self):
        super().__init__()
        self.conv, self.norm = nn.Conv1d(3, 4, 3, padding=1), nn.InstanceNorm1d(4, affine=True)

    def forward(self, x, mask):
        return {"audio": torch.tanh(self.norm(self.conv(x))), "mask": mask.logical_not(), "a/b": x}


@pytest.mark.parametrize(
    ("name", "needs_torch"),
    [("onnxruntime", False)]
    + [pytest.param(name, True, marks=pytest.mark.slow) for name in ("aot-inductor", "executorch-xnnpack")],
)
def test_a_process_that_never_saw_the_model_computes_the_same_bits(name, needs_torch, tmp_path):
    backend, x = present(name), torch.randn(1, 3, 8)
    x[0, 1, 2] = float("nan")
    inputs = {"x": x, "mask": torch.tensor([True, False])}
    artifact = backend.export(Block(), inputs, tmp_path)
    assert not isinstance(artifact, Failure), str(artifact)
    here = backend.load(artifact).run(inputs)
    np.savez(tmp_path / "inputs.npz", **inputs)
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    done = run_apart(["-P", "-c", DEPLOYED, name, artifact.path, tmp_path], environment=environment)
    assert done.status == 0, done.said
    modules = set(json.loads((tmp_path / "modules.json").read_text()))
    assert not modules & {"kokoro", "kokoro_nb.models", "tests"}
    assert ("torch" in modules) is needs_torch  # a deployment on ONNX Runtime needs none
    with np.load(tmp_path / "outputs.npz") as stored:
        for value, mine in zip(stored.values(), here.values(), strict=True):
            assert value.dtype == mine.dtype
            np.testing.assert_array_equal(value.view(np.uint8), mine.view(np.uint8))  # NaN included
