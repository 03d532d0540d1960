"""An inspection that is killed goes on where it was, and says the same."""

import os
import signal
import subprocess
import sys

import numpy as np
import pytest

import kokoro_nb as nb
from kokoro_nb.inspection import file_run, saved_progress

KILLED = """
import os, signal, sys
from kokoro_nb.inspection import file_run, inspect, saved_progress

saved_progress.EVERY = 0.0
real, count = file_run._judged, iter(range(10**6))

def judged(*arguments):
    if next(count) == int(sys.argv[2]):
        os.kill(os.getpid(), signal.SIGKILL)
    return real(*arguments)

file_run._judged = judged
inspect(sys.argv[1])
"""


@pytest.fixture
def long(save, node, tmp_path, monkeypatch):
    """Return a file of 300 nodes of which one draws and one is wrong, and have a cache of its own."""
    monkeypatch.setenv("KOKORO_NB_CACHE", str(tmp_path / "cache"))
    nodes = [
        node("RandomNormalLike", ["x"], ["r"], name="/draw", seed=1.0),
        node("Add", ["x", "r"], ["v0"], name="/add"),
    ]
    nodes += [node(("Sin", "Tanh", "Neg")[k % 3], [f"v{k}"], [f"v{k + 1}"], name=f"/n{k}") for k in range(298)]
    nodes[200] = node("Mul", ["v198", "nan"], ["v199"], name="/wrong")
    return save(nodes, {"x": [4, 8]}, ["v298"], {"nan": np.float32(np.nan)})


def _judged(monkeypatch):
    """Return a list that grows by each node that is judged."""
    seen, real = [], file_run._judged
    monkeypatch.setattr(file_run, "_judged", lambda file, node, *more: seen.append(node.key) or real(file, node, *more))
    return seen


def test_a_killed_inspection_goes_on_and_says_the_same(long, tmp_path, monkeypatch):
    killed = subprocess.run([sys.executable, "-c", KILLED, str(long), "180"], env=os.environ, check=False)
    assert killed.returncode == -signal.SIGKILL
    (left,) = (tmp_path / "cache" / "inspect").glob("*.progress")
    seen = _judged(monkeypatch)
    resumed = nb.inspect(long)
    assert 100 <= len(seen) < 200
    assert not left.exists()
    seen.clear()
    whole = nb.inspect(long)
    assert len(seen) == 300
    assert repr(resumed) == repr(whole)
    assert resumed.first.key == "/wrong"


def test_another_input_and_damaged_progress_are_judged_anew(long, tmp_path, monkeypatch):
    monkeypatch.setattr(saved_progress, "EVERY", 0.0)
    nb.inspect(long, seconds=1e-9)
    (left,) = (tmp_path / "cache" / "inspect").glob("*.progress")
    seen = _judged(monkeypatch)
    nb.inspect(long, {"x": np.ones((4, 8), np.float32)}, seconds=1e-9)
    assert seen[0] == "/draw"
    left.write_bytes(left.read_bytes()[:50])
    seen.clear()
    nb.inspect(long)
    assert len(seen) == 300


def test_what_the_time_did_not_allow_is_done_the_next_time(long, monkeypatch):
    monkeypatch.setattr(saved_progress, "EVERY", 0.0)
    first = nb.inspect(long, seconds=1e-9)
    assert first.verdict == "unknown"
    seen = _judged(monkeypatch)
    assert len(nb.inspect(long).judgements) == 300
    assert len(seen) == 300 - len(first.judgements)
