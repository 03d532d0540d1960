"""A project with one small notebook, and sweeps of it."""

import nbformat
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from kokoro_nb.reporting.sweep_grid import read_spec

PARAMETERS = 'number = 0\nbackend = "eager"\nfolder = ""\nout_dir = None'
MEASURE = """\
import json, pathlib
finding = dict(kind="size", verdict="pass", statement="It is small.", weights="none", value=number, limit=1000)
rows = [finding, {**finding, "kind": "sign", "value": "nan", "verdict": "fail", "limit": None}]
pathlib.Path(out_dir, "findings.json").write_text(json.dumps({"schema": 1, "finished": "now", "findings": rows}))"""


def make_notebook(root, *sources, parameters=PARAMETERS, name="01_tiny"):
    """Save ``01_tiny`` with these cells after its parameters and return its folder."""
    folder = root / "notebooks"
    folder.mkdir(exist_ok=True)
    cells = [new_markdown_cell("# Tiny"), new_code_cell(parameters, metadata={"tags": ["parameters"]})]
    cells += [new_code_cell(source) for source in sources]
    nbformat.write(new_notebook(cells=cells), folder / f"{name}.ipynb")
    return folder


def spec_of(folder, text):
    """Return a sweep that is read from its text."""
    (folder / "spec.toml").write_text(text, encoding="utf-8")
    return read_spec(folder / "spec.toml")
