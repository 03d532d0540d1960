"""Scripts for findings in files other than ONNX: each shows its error in a process without this package."""

import re
import subprocess
import sys

import numpy as np
import pytest
import torch

import kokoro_nb as nb
from kokoro_nb.inspection.formats import read_program
from kokoro_nb.inspection.formats.pte_file import PteFile
from tests.backends.small import Of
from tests.inspection.conftest import script_says

SAID = re.compile(r"finite (\S+)%, should be (\S+)%\s+largest error (\S+), in the file (\S+)")


def _said(path):
    """Return the shares of finite values that a script shows, given and right, and both errors."""
    return [float(one) for one in SAID.search(script_says(path)).groups()]


def test_an_overflow_in_a_pt2_file(tmp_path):
    path = tmp_path / "loud.pt2"
    loud = Of(lambda x: torch.exp(torch.abs(x) * 30 + 10) * 1e-6)
    torch.export.save(torch.export.export(loud, (torch.full((2, 8), 0.5, dtype=torch.float16),)), path)
    report = nb.inspect(path, folder=tmp_path / "out")
    assert (report.first.key, report.first.blame, report.first.kind) == ("exp", "precision", "nonfinite")
    assert _said(report.scripts[0])[:2] == [0.0, 100.0]


def test_a_delegate_of_a_pte_file_gives_alone_the_same_bits(pte, tmp_path):
    pytest.importorskip("executorch")
    program = read_program(pte(delegate=True))
    inputs = program.made().arrays
    captured = program.run(inputs).captured
    name = next(one.name for one in program.operators if one.op == "XnnpackBackend")
    one = program.alone(name, inputs, captured, tmp_path)
    np.savez(tmp_path / "values.npz", **one.values)
    start = "from pathlib import Path\nimport numpy as np\nhere = Path(__file__).parent\n"
    lines = f"saved = np.load(here / 'values.npz')\n{one.lines}np.save(here / 'given.npy', given)\n"
    (tmp_path / "run.py").write_text(start + lines)
    subprocess.run([sys.executable, "-I", str(tmp_path / "run.py")], capture_output=True, check=True)
    assert np.load(tmp_path / "given.npy").tobytes() == captured[name].tobytes()


def test_a_kernel_of_a_pte_file_that_is_wrong_by_its_definition_is_shown(pte, tmp_path, monkeypatch):
    pytest.importorskip("executorch")
    real = PteFile.recompute

    def other(self, name, *arguments, **more):
        found = real(self, name, *arguments, **more)
        return found * 1.001 if name == "4:sin" else found

    monkeypatch.setattr(PteFile, "recompute", other)
    report = nb.inspect(pte(), folder=tmp_path / "out")
    assert report.first.key == "forward_0_4"
    _, _, error, stated = _said(report.scripts[0])
    assert error >= 0.99 * stated > 0
