"""A small program of any size: what it computes, what it refuses, and that its lowering leaves nothing out."""

import pytest
import torch
from torch import nn

from kokoro_nb.backends.base import quietly
from kokoro_nb.backends.executorch import DELEGATES
from kokoro_nb.delivery.open_programs import lowered_program, open_program
from kokoro_nb.errors import InputError

pytest.importorskip("executorch.runtime")
MOST = 12


@pytest.fixture(scope="module")
def program():
    torch.manual_seed(0)
    module = nn.Sequential(nn.Conv1d(2, 3, 3, padding=1), nn.LeakyReLU(), nn.Conv1d(3, 2, 5, padding=2)).eval()
    sizes = [{2: torch.export.Dim("frames", min=2, max=MOST)}]
    with quietly():
        return module, open_program(module, [torch.zeros(1, 2, MOST)], sizes)


@pytest.fixture(scope="module")
def lowered(program):
    with quietly():
        return lowered_program(program[1], [DELEGATES["xnnpack"].partitioner()], {"most": MOST})


def test_every_size_is_computed_as_in_pytorch(program, lowered, tmp_path):
    from executorch.runtime import Runtime

    path = tmp_path / "model.pte"
    path.write_bytes(lowered)
    with quietly():
        loaded = Runtime.get().load_program(str(path))
        method = loaded.load_method("forward")
        for frames in (2, 7, MOST):
            x = torch.randn(1, 2, frames, generator=torch.Generator().manual_seed(frames))
            with torch.no_grad():
                expected = program[0](x)
            (found,) = method.execute([x])
            assert found.shape == expected.shape
            assert torch.allclose(found, expected, rtol=0, atol=1e-5)
        assert loaded.load_method("most").execute([]) == [MOST]
        with pytest.raises(RuntimeError):
            method.execute([torch.zeros(1, 2, MOST + 1)])


def test_a_program_of_one_size_is_refused_where_more_is_promised(program, monkeypatch):
    monkeypatch.setattr("executorch.exir.sym_util.eval_upper_bound", lambda size: 1)
    with quietly(), pytest.raises(InputError, match=r"Lowering narrowed an input of \[1, 2, 12\] to \[1, 1, 1\]"):
        lowered_program(program[1], [])
