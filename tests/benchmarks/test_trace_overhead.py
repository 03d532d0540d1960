import numpy as np
import pytest
import torch
from torch import nn

from kokoro_nb.backends.exported import export_program
from kokoro_nb.benchmarks import trace_overhead as module
from kokoro_nb.benchmarks.trace_overhead import TIME_RATIO, trace_cost
from kokoro_nb.errors import InputError


class Small(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv1d(3, 4, 3)

    def forward(self, x):
        return torch.sin(self.conv(x)) + 1


INPUTS = {"x": torch.randn(1, 3, 64, generator=torch.Generator().manual_seed(0))}


def test_each_backend_is_measured_with_the_common_ways_beside_it(tmp_path):
    rows = trace_cost(export_program(Small(), INPUTS), INPUTS, ["eager", "onnxruntime"], calls=2, folder=tmp_path)
    assert [row["program"].split(",")[0] for row in rows] == ["eager", "eager", "onnxruntime", "onnxruntime"]
    assert [row["operators seen"] for row in rows] == [3, 2, 3, 3]  # conv, sin, add; the module and its one part
    assert all(row["plain (s)"] > 0 and row["traced (s)"] > 0 for row in rows)
    assert rows[0][TIME_RATIO] == rows[0]["traced (s)"] / rows[0]["plain (s)"]


def test_memory_is_that_of_the_call():
    kept = []
    grown = module._grown(lambda: kept.append(np.ones(8_000_000)))  # 64 MB
    assert np.isnan(grown) or 60 < grown < 100


def test_an_absent_backend_is_one_sentence(tmp_path):
    exported = export_program(Small(), INPUTS)
    with pytest.raises(InputError, match="tvm-metal cannot run here"):
        trace_cost(exported, INPUTS, ["tvm-metal"], folder=tmp_path)
