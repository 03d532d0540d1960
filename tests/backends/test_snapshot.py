from contextlib import contextmanager

import pytest
import torch
from torch import nn
from torch.nn.utils import weight_norm

from kokoro_nb import patch_registry
from kokoro_nb.backends.eager import Eager
from kokoro_nb.backends.exported import snapshot, state, wrote
from tests.backends.small import Of


class Windowed(nn.Module):
    """Holds a tensor that is neither parameter nor buffer, as Kokoro's TorchSTFT does."""

    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(3, 3)
        self.window = torch.hann_window(3)
        self.ids = torch.arange(3)

    def forward(self, x):
        return self.lstm(x)[0] * self.window + torch.tensor(1 / 3)


def test_a_weight_norm_that_has_run_can_be_copied():
    module = weight_norm(nn.Conv1d(2, 2, 1))
    module(torch.zeros(1, 2, 3))  # leaves a weight with a gradient behind, which copy.deepcopy refuses
    twin = snapshot(module)
    x = torch.randn(1, 2, 3)
    torch.testing.assert_close(twin(x), module(x), rtol=0, atol=0)
    assert all(parameter.requires_grad for parameter in twin.parameters()), "what is exported is the user's module"
    assert all(parameter.requires_grad for parameter in module.parameters())


def test_a_copy_is_in_evaluation_mode_and_does_not_follow_the_module():
    module = nn.Sequential(nn.Linear(2, 2), nn.Dropout()).train()
    twin = snapshot(module)
    module[0].weight.data.zero_()
    assert module.training
    assert not twin.training
    assert twin[0].weight.abs().min() > 0


def test_double_reaches_every_float_tensor_and_no_other():
    twin = snapshot(Windowed(), double=True)
    assert twin.window.dtype == twin.lstm.weight_ih_l0.dtype == torch.float64
    assert twin.ids.dtype == torch.int64


def test_eager_float64_computes_in_float64_throughout():
    module, x = Windowed(), torch.randn(4, 1, 3)
    backend = Eager("eager-float64", double=True)
    output = backend.load(backend.export(module, {"x": x})).run({"x": x})["output"]
    assert output.dtype == "float64"
    # 1/3 made inside the forward is a float64, or the error would be 1e-8.
    twin = snapshot(module, double=True)
    with torch.no_grad():
        exact = twin.lstm(x.double())[0] * twin.window + torch.tensor(1 / 3, dtype=torch.float64)
    assert abs(output - exact.numpy()).max() < 1e-15
    assert torch.get_default_dtype() == torch.float32


@pytest.mark.parametrize("rebind", [False, True])
def test_state_that_is_written_is_noticed(rebind):
    module = nn.BatchNorm1d(2)
    before = state(module)
    assert not wrote(before, state(module))
    if rebind:
        module.running_mean = module.running_mean + 1
    else:
        module.running_mean.add_(1)
    assert wrote(before, state(module))


def test_eager_runs_under_the_patches_that_were_on_at_its_export(monkeypatch):
    on = ["floor_phase"]

    @contextmanager
    def within(names):
        before, on[:] = list(on), names
        yield
        on[:] = before

    monkeypatch.setattr(patch_registry, "_CATALOGUES", [(lambda: tuple(on), within)])

    x = torch.zeros(1)
    backend = Eager("eager")
    program = backend.load(backend.export(Of(lambda x: x + len(on)), {"x": x}))
    on.clear()
    assert program.run({"x": x})["output"] == 1
    assert on == []
