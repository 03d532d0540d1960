"""An inspection of a file of another format that is killed goes on where it was, and says the same."""

import os
import signal
import subprocess
import sys

import numpy as np
import pytest
import torch

import kokoro_nb as nb
from kokoro_nb.inspection import saved_progress
from kokoro_nb.inspection.formats import program_report

KILLED = """
import os, signal, sys
from kokoro_nb.inspection import inspect, saved_progress
from kokoro_nb.inspection.formats import program_report

saved_progress.EVERY = 0.0
real, count = program_report._judged, iter(range(10**6))

def judged(*arguments):
    if next(count) == int(sys.argv[2]):
        os.kill(os.getpid(), signal.SIGKILL)
    return real(*arguments)

program_report._judged = judged
inspect(sys.argv[1])
"""


class Long(torch.nn.Module):
    """Sixty operators, in the middle of which the logarithm of a negative number stands."""

    def forward(self, x):
        for step in range(60):
            x = (x - 100.0).log() if step == 20 else x.sin() * 0.9
        return x


@pytest.fixture(params=["pt2", "pte", "mlpackage"])
def long(request, tmp_path, monkeypatch):
    monkeypatch.setenv("KOKORO_NB_CACHE", str(tmp_path / "cache"))
    torch.manual_seed(0)
    x, path = torch.randn(2, 8), tmp_path / f"long.{request.param}"
    exported = torch.export.export(Long(), (x,))
    if request.param == "pt2":
        torch.export.save(exported, path)
    elif request.param == "pte":
        to_edge = pytest.importorskip("executorch.exir").to_edge_transform_and_lower
        path.write_bytes(to_edge(exported).to_executorch().buffer)
    else:
        ct = pytest.importorskip("coremltools")
        given = [ct.TensorType(name="x", shape=(2, 8))]
        traced = torch.jit.trace(Long(), x)
        ct.convert(traced, inputs=given, convert_to="mlprogram", skip_model_load=True).save(str(path))
    return path


def test_a_killed_inspection_goes_on_and_says_the_same(long, tmp_path, monkeypatch):
    killed = subprocess.run([sys.executable, "-c", KILLED, str(long), "50"], env=os.environ, check=False)
    assert killed.returncode == -signal.SIGKILL
    (left,) = (tmp_path / "cache" / "inspect").glob("*.progress")
    seen, real = [], program_report._judged
    monkeypatch.setattr(program_report, "_judged", lambda *given: seen.append(given[-1]) or real(*given))
    resumed = nb.inspect(long)
    assert seen[0] == 50
    assert not left.exists()
    seen.clear()
    whole = nb.inspect(long)
    assert seen == list(range(len(whole.judgements)))
    assert repr(resumed) == repr(whole)
    assert (resumed.findings, resumed.notes, resumed.verdict) == (whole.findings, whole.notes, whole.verdict)
    assert resumed.findings


def test_another_input_is_judged_anew(long, tmp_path, monkeypatch):
    monkeypatch.setattr(saved_progress, "EVERY", 0.0)
    name = nb.inspect(long, seconds=0.0).inputs
    seen, real = [], program_report._judged
    monkeypatch.setattr(program_report, "_judged", lambda *given: seen.append(given[-1]) or real(*given))
    nb.inspect(long, {one: np.ones((2, 8), np.float32) for one in name})
    assert seen[0] == 0
