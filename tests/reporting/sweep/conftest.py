"""A project with one small notebook, and sweeps of it."""

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from kokoro_nb.reporting.sweep.grid import read_spec

PARAMETERS = 'number = 0\nbackend = "eager"\nfolder = ""\nout_dir = None'
MEASURE = """\
import json, pathlib
finding = dict(kind="size", verdict="pass", statement="It is small.", weights="none", value=number, limit=1000)
rows = [finding, {**finding, "kind": "sign", "value": "nan", "verdict": "fail", "limit": None}]
pathlib.Path(out_dir, "findings.json").write_text(json.dumps({"schema": 1, "finished": "now", "findings": rows}))"""


@pytest.fixture(scope="session")
def make_notebook():
    """Return a function that saves ``01_tiny`` with these cells after its parameters and returns its folder."""

    def make(root, *sources, parameters=PARAMETERS, name="01_tiny"):
        folder = root / "notebooks"
        folder.mkdir(exist_ok=True)
        cells = [new_markdown_cell("# Tiny"), new_code_cell(parameters, metadata={"tags": ["parameters"]})]
        cells += [new_code_cell(source) for source in sources]
        nbformat.write(new_notebook(cells=cells), folder / f"{name}.ipynb")
        return folder

    return make


@pytest.fixture(scope="session")
def measure():
    """Return the source of a cell that leaves two findings, one of them NaN."""
    return MEASURE


@pytest.fixture(scope="session")
def spec_of():
    """Return a function that reads a sweep from its text."""

    def read(folder, text):
        (folder / "spec.toml").write_text(text, encoding="utf-8")
        return read_spec(folder / "spec.toml")

    return read
