import time
from functools import partial

import nbformat
import pytest

from kokoro_nb.cache_keys import code_digest
from kokoro_nb.errors import InputError
from kokoro_nb.reporting.run_outcome import Limits
from kokoro_nb.reporting.runs import read_run
from kokoro_nb.reporting.sweep import CellError, run_cell
from kokoro_nb.reporting.sweep_grid import expand
from tests.reporting.sweep.conftest import MEASURE, make_notebook, spec_of


def asked(folder, spec, root, package=None, timeout=None):
    """Return the folder of a sweep's one cell, and a function that executes it."""
    (cell,) = expand(spec, folder)
    place = root / "cells" / cell.run.notebook
    return place, partial(run_cell, cell, place, package or code_digest(), None, Limits(timeout))


def test_a_cell_is_executed_in_a_folder_that_appears_whole_and_only_once(tmp_path):
    seen = "import os; assert os.path.samefile('.', out_dir); print(sorted(os.listdir('../..')))"
    spec = spec_of(tmp_path, 'notebook = "01"\n[fixed]\nnumber = 7')
    place, begin = asked(make_notebook(tmp_path, seen, MEASURE), spec, tmp_path)
    begin()
    run = read_run(place)
    assert (run.status, run.error, run.notebook, run.parameters) == ("passed", "", place.name, {"number": 7})
    assert list(run.files) == [f"{run.notebook}.ipynb", "findings.json"]
    copy = nbformat.read(place / run.executed, as_version=4)
    (listed,) = (output.text for output in copy.cells[-2].outputs)
    assert f"'{run.notebook}'" not in listed, "while it was executed its folder was not there"
    assert [path.name for path in place.parent.iterdir()] == [run.notebook], "and nothing else is left"
    begin()
    assert read_run(place) == run, "what has passed is not begun again"


def test_a_cell_that_takes_too_long_is_stopped(tmp_path):
    folder = make_notebook(tmp_path, "import time; time.sleep(60)")
    start = time.monotonic()
    place, begin = asked(folder, spec_of(tmp_path, 'notebook = "01"'), tmp_path, timeout=2.5)
    with pytest.raises(CellError, match=r"It was stopped after 2\.5 s, its limit of time; allow it more"):
        begin()
    assert time.monotonic() - start < 30
    assert read_run(place).status == "timed out"


def test_another_package_is_refused_before_anything_runs(tmp_path):
    place, begin = asked(make_notebook(tmp_path), spec_of(tmp_path, 'notebook = "01"'), tmp_path, package="another")
    with pytest.raises(InputError, match="The package of a worker is not the one that the sweep was started with"):
        begin()
    assert not place.exists()
