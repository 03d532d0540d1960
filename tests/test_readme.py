"""What the README shows is what works."""

import re
from pathlib import Path

import torch

from kokoro_nb.backends.exported import export_program

README = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")


def _example(marker):
    """Return the Python block that follows `marker`."""
    return re.search(r"```python\n(.*?)```", README[README.index(marker) :], re.DOTALL).group(1)


def test_the_backend_of_the_readme_is_one(tmp_path):
    source = _example("**A backend**")
    assert len(source.splitlines()) < 60
    names = {"__name__": "readme"}
    exec(compile(source, "README.md", "exec"), names)
    module, given = torch.nn.Linear(3, 2).eval(), {"input": torch.randn(4, 3)}
    backend = names["Pt2"]("pt2")
    artifact = backend.export(export_program(module, given), given, tmp_path)
    found = backend.load(artifact).run(given)
    assert torch.equal(torch.from_numpy(found["output"]), module(given["input"]).detach())
    assert backend.export(module, given, tmp_path).cached
    trace = backend.load(artifact).trace(given)
    assert trace.missing
    assert not trace.taps


def test_every_notebook_is_in_the_map():
    names = {path.stem for path in (Path(__file__).parents[1] / "notebooks").glob("*.ipynb")}
    assert set(re.findall(r"^\| `(\d\d_\w+)` \|", README, re.MULTILINE)) == names
