import os

import numpy as np
import pytest
import torch
from torch import nn

from kokoro_nb.backends.exported import export_program
from kokoro_nb.backends.tvm import Tvm, relax_module
from kokoro_nb.backends.tvm.schedule import TvmScheduled
from kokoro_nb.benchmarks.interleaved import cores
from kokoro_nb.run_apart import run_apart
from tests.backends.small import Layers, Of

X = {"x": torch.linspace(-1, 1, 24).reshape(1, 4, 6)}


CONV = Layers(nn.Conv1d(4, 2, 3))


def test_the_artefact_is_a_shared_library_for_this_processor(tmp_path):
    made = Tvm("tvm").export(CONV, X, tmp_path)
    assert sorted(p.name for p in made.path.parent.iterdir()) == ["meta.json", "model.so", "taps.json"]
    assert made.path.read_bytes()[:4] in (b"\x7fELF", b"\xcf\xfa\xed\xfe")
    assert made.seconds.keys() == {"exported", "lowered", "serialised"}


def test_what_decides_the_content_decides_the_key():
    assert len({str(one.options()) for one in (Tvm("tvm"), Tvm("tvm", fused=False), TvmScheduled("tvm"))}) == 3


def test_a_refusal_says_at_which_node():
    def running(x):
        ring = x.clone()
        ring[:, torch.tensor([0, 1])] = -x[:, :2]
        return ring

    with pytest.raises(ValueError, match="IndexPut") as caught:
        relax_module(export_program(Of(running), X).program)
    assert "(index_put.default) in the module" in caught.value.__notes__[0]


def test_without_a_linker_the_reason_is_given(monkeypatch):
    monkeypatch.setattr("tvm.support.cc.get_cc", lambda: None)
    assert "install gcc or clang" in Tvm("tvm").available()


def test_assertions_of_tvm_itself_are_no_calls_of_the_program(tmp_path):
    given = {"x": torch.tensor([[1, 3, 0]])}
    exported = export_program(Of(lambda x: nn.functional.one_hot(x, 4).to(torch.float32) * 2), given)
    backend = Tvm("tvm-unfused", fused=False)
    trace = backend.load(backend.export(exported, given, tmp_path)).trace(given, keep="full")
    np.testing.assert_array_equal(trace.values[":mul"], 2 * np.eye(4, dtype=np.float32)[[[1, 3, 0]]])


COUNT = """
import sys
from pathlib import Path

import numpy as np
import torch

from kokoro_nb.backends.base import Artifact
from kokoro_nb.backends.signature import TensorSpec
from kokoro_nb.backends.tvm.schedule import TvmScheduled

torch.set_num_threads(int(sys.argv[2]))
made = Artifact("tvm-scheduled", Path(sys.argv[1]), (TensorSpec("input", (4, 6), "float32"),), ("output",))
TvmScheduled("tvm-scheduled").load(made).run({"input": np.zeros((4, 6), np.float32)})
import tvm

print(tvm.get_global_func("runtime.NumThreads")())
"""


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    """Return the file of a small program."""
    runtime, given = TvmScheduled("tvm-scheduled"), {"input": torch.ones(4, 6)}
    return runtime.export(nn.Sigmoid(), given, tmp_path_factory.mktemp("tvm")).path


def threads(library, **variables):
    """Return how many threads TVM has in a process of its own, where PyTorch has one for each core."""
    absent = ("OMP_NUM_THREADS", "TVM_NUM_THREADS")
    environment = {name: value for name, value in os.environ.items() if name not in absent} | variables
    return int(run_apart(["-c", COUNT, library, str(cores())], environment=environment).stdout)


def test_it_computes_on_as_many_threads_as_pytorch(library):
    assert threads(library) == cores()


def test_the_environment_says_otherwise(library):
    assert threads(library, TVM_NUM_THREADS="1") == 1
