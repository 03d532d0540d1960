import ctypes
import gc

import pytest
import torch
from torch import nn

from kokoro_nb.backends import BACKENDS
from kokoro_nb.backends.artefacts import FileBackend
from kokoro_nb.backends.base import Artifact
from kokoro_nb.backends.export_memory import give_back_memory

WIDE = 61  # channels that no other tensor of this process has


class TwoConvolutions(nn.Module):
    def __init__(self):
        super().__init__()
        self.widen, self.narrow = nn.Conv1d(3, WIDE, 5), nn.Conv1d(WIDE, 3, 5)

    def forward(self, x):
        return self.narrow(torch.sin(self.widen(x)))


@pytest.mark.parametrize("name", [name for name, backend in BACKENDS.items() if isinstance(backend, FileBackend)])
def test_no_weights_of_an_export_stay_in_memory(name, tmp_path):
    reason = BACKENDS[name].available()
    if reason is not None:
        pytest.skip(reason)
    made = BACKENDS[name].export(TwoConvolutions(), {"x": torch.linspace(-1, 1, 60).reshape(1, 3, 20)}, tmp_path)
    assert isinstance(made, Artifact)
    assert _weights() == []


def _weights():
    """Return the shapes of the weights of `TwoConvolutions` that are in memory, wherever they are."""
    gc.collect()
    tensors = [one for one in gc.get_objects() if type(one) in (torch.Tensor, nn.Parameter)]
    return [tuple(tensor.shape) for tensor in tensors if WIDE in tensor.shape]


def test_weights_in_memory_are_found():
    module = TwoConvolutions()
    assert len(_weights()) == len([weight for weight in module.parameters() if WIDE in weight.shape]) == 3


def test_freed_memory_goes_back_to_the_system():
    import psutil

    if not hasattr(ctypes.CDLL(None), "malloc_trim"):
        pytest.skip("this C library gives it back by itself, or not at all")
    held = [bytearray(100_000) for _ in range(4000)]  # below what is given back at once
    last, before = bytearray(100_000), psutil.Process().memory_info().rss
    held.clear()
    give_back_memory()
    assert before - psutil.Process().memory_info().rss > 0.9 * 4000 * 100_000
    assert len(last) == 100_000, "what lies above the freed memory, and kept it"
