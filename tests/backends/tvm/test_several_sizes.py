import numpy as np
import pytest
import torch
from torch import nn

from kokoro_nb.backends.base import Artifact, Failure, RungError
from kokoro_nb.backends.exported import export_program
from kokoro_nb.backends.signature import TensorSpec
from kokoro_nb.backends.tvm import Tvm, write_sizes
from kokoro_nb.errors import InputError

SPECS = (TensorSpec("x", (1, 256, 5), "float32", open=(2,)),)
SIZES = (5, 40, 333)


class Layers(nn.Module):
    def __init__(self, seed=0):
        super().__init__()
        torch.manual_seed(seed)
        self.conv, self.linear = nn.Conv1d(256, 256, 3, padding=1), nn.Linear(256, 256)

    def forward(self, x):
        return self.linear(self.conv(x).sin().transpose(1, 2))


def x_of(size):
    return torch.linspace(-1, 1, 256 * size).reshape(1, 256, size)


def written(path, programs):
    """Return the program in a library for several sizes."""
    path.parent.mkdir()
    assert write_sizes(programs, SPECS, path) is None
    return Tvm("tvm").load(Artifact("tvm", path, SPECS, ("output",)))


def error(program, module, size):
    with torch.no_grad():
        return np.abs(program.run({"x": x_of(size)})["output"] - module(x_of(size)).numpy()).max()


def test_each_size_is_right_and_the_weights_are_there_once(tmp_path):
    module = Layers()
    one = tmp_path / "one" / "model.so"
    written(one, [export_program(module, {"x": x_of(40)})])
    all_of_them = tmp_path / "all" / "model.so"
    program = written(all_of_them, (export_program(module, {"x": x_of(size)}) for size in SIZES))
    assert [error(program, module, size) <= 1e-5 for size in SIZES] == [True] * 3
    weights = 4 * sum(parameter.numel() for parameter in module.parameters())
    assert one.stat().st_size > weights
    assert all_of_them.stat().st_size < one.stat().st_size + weights / 2


def test_weights_that_differ_stay_apart(tmp_path):
    modules = [Layers(seed) for seed in range(2)]
    exported = [export_program(module, {"x": x_of(size)}) for module, size in zip(modules, SIZES, strict=False)]
    program = written(tmp_path / "two" / "model.so", exported)
    for module, other, size in zip(modules, reversed(modules), SIZES, strict=False):
        assert error(program, module, size) <= 1e-5
        assert error(program, other, size) > 1e-2


def test_a_size_that_is_not_there_is_refused(tmp_path):
    program = written(tmp_path / "one" / "model.so", [export_program(Layers(), {"x": x_of(5)})])
    with pytest.raises(InputError, match="TVM's library has no function 'main_6' for these sizes"):
        program.run({"x": x_of(6)})


def test_a_program_that_failed_is_handed_on(tmp_path):
    failure = Failure("torch.export", "exported", "ValueError", "no")
    path = tmp_path / "model.so"
    assert write_sizes([export_program(Layers(), {"x": x_of(5)}), failure], SPECS, path) is failure
    assert not path.exists()


def test_what_tvm_refuses_names_its_rung(tmp_path):
    class Random(nn.Module):
        def forward(self, x):
            return x + torch.rand_like(x)

    with pytest.raises(RungError) as refused:
        write_sizes([export_program(Random(), {"x": x_of(5)})], SPECS, tmp_path / "model.so")
    assert refused.value.rung == "lowered"
    assert "draws random numbers" in str(refused.value.__cause__)
