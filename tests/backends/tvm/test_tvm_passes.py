import numpy as np
import pytest
import torch
from torch import nn

from kokoro_nb.backends.exported import export_program
from kokoro_nb.backends.tvm import targets, tvm_passes
from kokoro_nb.backends.tvm.importer import relax_module

X = {"x": torch.linspace(-1, 1, 24).reshape(1, 4, 6)}


class Chain(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv1d(4, 2, 3)

    def forward(self, x):
        return torch.sin(self.conv(x)).exp() + 1


@pytest.fixture(scope="module")
def module():
    return relax_module(export_program(Chain(), X))


def _calls(module, here, fused):
    """Run once and return the names of the functions that the virtual machine called, with what they gave."""
    import tvm

    machine = tvm.relax.VirtualMachine(tvm_passes.compiled(module, here, fused=fused, scheduled=False), tvm.cpu())
    seen = []

    def note(_function, name, before, _result, *arguments):
        if not before and not name.startswith("vm."):
            seen.append((name, arguments[-1].numpy()))

    machine.set_instrument(note)
    (output,) = machine["main"](tvm.runtime.tensor(X["x"].numpy()))
    return seen, output.numpy()


def test_unfused_every_operator_is_a_call_that_can_be_seen(module, here):
    fused, output = _calls(module, here, fused=True)
    unfused, same = _calls(module, here, fused=False)
    assert len(fused) < len(unfused)
    assert [name for name, _ in unfused] == ["conv1d", "add", "tir_sin", "tir_exp", "add1"]
    np.testing.assert_array_equal(np.sin(unfused[1][1]).astype("float32").shape, unfused[2][1].shape)
    np.testing.assert_allclose(unfused[2][1], np.sin(unfused[1][1]), atol=1e-6)
    np.testing.assert_array_equal(unfused[-1][1], output)
    np.testing.assert_allclose(output, same, atol=1e-6)


def test_loops_are_scheduled_for_a_processor_where_that_is_asked_for(monkeypatch, module, here):
    asked = []

    def scheduled(module, target):
        asked.append(target)
        return module

    monkeypatch.setattr("kokoro_nb.backends.tvm.schedule.scheduled", scheduled)
    tvm_passes.compiled(module, here, scheduled=False)
    assert asked == []
    tvm_passes.compiled(module, here)
    assert asked == [here]


def test_a_graphics_processor_gets_threads_in_any_case(module):
    target = targets.target({"kind": "opencl"})
    assert [p.info.name for p in tvm_passes.scheduling(target, scheduled=False)] == ["ApplyDefaultSchedule"]
    assert tvm_passes.scheduling(targets.target(targets.ARM_LINUX), scheduled=False) == []
    assert target.host.attrs["mtriple"] == "aarch64-linux-gnu"
