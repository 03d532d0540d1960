"""Reading and writing where indices point: against torch, from the end, and outside."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

from kokoro_nb.backends.exported import export_program
from kokoro_nb.backends.tvm import Tvm, TvmCross
from kokoro_nb.backends.tvm.importer import relax_module

X = torch.arange(96.0).reshape(2, 6, 8)
X[1, 2, 3] = float("nan")
I = torch.tensor([[1, 0, 5], [2, 2, 4]])  # noqa: E741
ROWS = torch.tensor([[0, 1, 0], [1, 0, 1]])
WIDE = I[:, :, None].expand(-1, -1, 8).contiguous()


class Of(nn.Module):
    """A function of a tensor and of indices as a module."""

    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, x, i):
        return self.function(x, i)


CASES = {
    "embedding": (lambda x, i: F.embedding(i, x[0]), I),
    "embedding of one": (lambda x, i: F.embedding(i, x[0]), I[0]),
    "embedding of int32": (lambda x, i: F.embedding(i, x[0]), I.int()),
    "select": (lambda x, i: x[:, 2] + i.sum(), I),
    "select the last": (lambda x, i: x[:, -1] + i.sum(), I),
    "index": (lambda x, i: x[:, i], I),
    "index from the end": (lambda x, i: x[:, i], I - 6),
    "index two axes": (lambda x, i: x[i % 2, i], I),
    "index two axes, not the first": (lambda x, i: x[:, i, i + 1], I),
    "index two axes apart": (lambda x, i: x[i % 2, :, i], I),
    "index of two shapes": (lambda x, i: x[torch.arange(2)[:, None], i], I),
    "index_select": (lambda x, i: x.index_select(-1, i), I[0]),
    "gather": (lambda x, i: x.gather(1, i), WIDE),
    "gather on the last axis": (lambda x, i: x.gather(-1, i), WIDE),
    "take": (lambda x, i: x.take(i), I),
    "scatter": (lambda x, i: x.scatter(1, i, -x), WIDE[:, :2]),
    "scatter a number": (lambda x, i: x.scatter(1, i, 7.0), WIDE),
    "scatter_add": (lambda x, i: x.scatter_add(1, i, x), WIDE),
    "index_put": (lambda x, i: x.index_put((i % 2, i), x[0, 0]), I),
    "index_put from the end": (lambda x, i: x.index_put((i % 2, i - 6), x[0, 0]), I),
    "index_put of an element": (lambda x, i: x.index_put((i % 2, i, i), torch.tensor(-1.0)), I),
    "index_put adds": (lambda x, i: x.index_put((i % 2, i), x[0, 0], accumulate=True), I),
    "index_copy": (lambda x, i: x.index_copy(1, i, x[:, :3]), I[0]),
    "index_add": (lambda x, i: x.index_add(1, i, x[:, :3]), I[1]),
    "index_fill": (lambda x, i: x.index_fill(2, i, 3.0), I[0]),
    "a ring that is written to": (lambda x, i: x.index_put((None, i % 6), -x[:, :3]), I[0] + 4),
}


def _written(x, i):
    """Write as a cache is written to: the exporter makes an index_put with a gap of it."""
    y = x.clone()
    y[:, i % 6] = -x[:, :3]
    return y


CASES["a ring that is written to"] = (_written, I[0] + 4)


@pytest.mark.parametrize("name", CASES)
def test_agrees_with_torch(name, run):
    function, indices = CASES[name]
    inputs = {"x": X, "i": indices}
    np.testing.assert_array_equal(run(Of(function), inputs)["output"], function(X, indices).numpy())


OUTSIDE = {
    "embedding": [6, -1, 200],
    "index": [6, -7, 10**12],
    "gather": [6, -1],
    "scatter": [6, -1],
    "index_copy": [6, -7],
}


@pytest.fixture(scope="module")
def programs(tmp_path_factory):
    """The cases as artefacts, loaded."""
    folder = tmp_path_factory.mktemp("artefacts")

    def load(name, indices):
        function, _ = CASES[name]
        backend = Tvm("tvm", scheduled=False)
        return backend.load(backend.export(Of(function), {"x": X, "i": indices}, folder))

    return {name: load(name, CASES[name][1]) for name in OUTSIDE}


@pytest.mark.parametrize(("name", "outside"), [(name, bad) for name, numbers in OUTSIDE.items() for bad in numbers])
def test_an_index_outside_is_an_error_of_the_artefact(name, outside, programs):
    # TVM alone reads or writes wherever it points.
    indices = CASES[name][1].clone()
    indices.view(-1)[-1] = outside
    with pytest.raises(IndexError, match=r"index out of range: the axis has \d positions"):
        programs[name].run({"x": X, "i": indices})
    programs[name].run({"x": X, "i": CASES[name][1]})  # and the machine goes on after it


def test_tvm_alone_reads_before_the_array_for_the_last_element():
    from tvm.relax.frontend.torch import from_exported_program

    exported = export_program(Of(CASES["select the last"][0]), {"x": X, "i": I})
    assert 'R.take(x, R.const(-1, "int64"), axis=1, mode="fast")' in str(from_exported_program(exported.program))
    assert 'R.take(x, R.const(5, "int64"), axis=1, mode="fast")' in str(relax_module(exported))


def test_tvm_alone_gives_another_shape_for_indices_that_are_apart(run_bare):
    function, inputs = CASES["index two axes apart"][0], {"x": X, "i": I[0]}
    (found,) = run_bare(export_program(Of(function), inputs), inputs)
    assert found.shape == (3, 6, 3)
    assert function(X, I[0]).shape == (3, 6)


def test_a_mask_in_place_of_indices_is_refused(tmp_path):
    def masked(x, i):
        y = x.clone()
        y[x > 3] = 0.0
        return y + i.sum()

    failure = Tvm("tvm").export(Of(masked), {"x": X, "i": I}, tmp_path)
    assert (failure.rung, failure.error) == ("lowered", "NotImplementedError")
    assert "write it with torch.where" in failure.message


def test_for_graphics_processors_indices_are_not_checked(tmp_path):
    inputs = {"x": X, "i": I}
    exported = export_program(Of(CASES["index from the end"][0]), inputs)
    assert "assert" in str(relax_module(exported))
    assert "assert" not in str(relax_module(exported, host=False))
    made = TvmCross("tvm-opencl", machine="opencl").export(exported, inputs, tmp_path)
    assert "__kernel" in made.path.with_name("kernels.cl").read_text()
