import pytest
import torch
from torch import nn

from kokoro_nb.backends.base import quietly
from kokoro_nb.backends.exported import export_program
from kokoro_nb.backends.tvm import targets, tvm_passes
from kokoro_nb.backends.tvm.importer import relax_module
from kokoro_nb.backends.tvm.quick_folding import BUILD, quick_folding

tvm = pytest.importorskip("tvm")


class Layers(nn.Module):
    """Layers alike, and one of another size: their weights are turned and their biases reshaped before it runs."""

    def __init__(self):
        super().__init__()
        self.alike = nn.ModuleList(nn.Linear(4, 4) for _ in range(3))
        self.last = nn.Conv1d(4, 5, 3)

    def forward(self, x):
        for layer in self.alike:
            x = layer(x)
        return self.last(x.transpose(1, 2))


@pytest.fixture
def module():
    """Return a Relax module with constants to be folded."""
    torch.manual_seed(0)
    with quietly():
        return relax_module(export_program(Layers(), {"x": torch.ones(1, 6, 4)}))


@pytest.fixture
def built(monkeypatch):
    """Return the functions that are compiled."""
    functions, plain = [], tvm.get_global_func(BUILD)

    def noted(function, target=None):
        functions.append(function)
        return plain(function, target)

    tvm.register_global_func(BUILD, noted, override=True)
    yield functions
    tvm.register_global_func(BUILD, plain, override=True)


def _folded(module):
    with targets.target(targets.this_processor()):
        return tvm.transform.Sequential(tvm_passes.legalisation())(module)


def test_the_module_is_the_same_for_a_compilation_of_each_function(module, built):
    from tvm_ffi import structural_equal

    plain = _folded(module)
    usual = len(built)
    with quick_folding():
        quick = _folded(module)
        once = len(built) - usual
        again = _folded(module)
    assert structural_equal(plain, quick)
    assert structural_equal(plain, again)
    assert 0 < once < usual
    assert len(built) == usual + once, "what was compiled once is compiled no more"


def test_backends_fold_so(module, built):
    _folded(module)
    usual = len(built)
    tvm_passes.compiled(module, targets.target(targets.this_processor()))
    assert 0 < len(built) - usual < usual


def test_afterwards_tvm_compiles_as_before(module, built):
    with pytest.raises(ZeroDivisionError), quick_folding():
        raise ZeroDivisionError
    for _ in range(2):
        before = len(built)
        _folded(module)
        assert len(built) > before
