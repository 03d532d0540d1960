import os
import subprocess
import sys

import pytest
import torch
from torch import nn

from kokoro_nb.backends.tvm import TvmScheduled
from kokoro_nb.benchmarks.interleaved import cores

COUNT = """
import sys
from pathlib import Path

import numpy as np
import torch

from kokoro_nb.backends.base import Artifact
from kokoro_nb.backends.signature import TensorSpec
from kokoro_nb.backends.tvm import TvmScheduled

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
    command = [sys.executable, "-c", COUNT, str(library), str(cores())]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return int(done.stdout)


def test_it_computes_on_as_many_threads_as_pytorch(library):
    assert threads(library) == cores()


@pytest.mark.parametrize("name", ["OMP_NUM_THREADS", "TVM_NUM_THREADS"])
def test_the_environment_says_otherwise(library, name):
    assert threads(library, **{name: "1"}) == 1
