"""A sweep: every combination is a cell once, what passed is kept, a killed worker loses nothing, a row per finding."""

import math
import re
from collections import Counter
from contextlib import contextmanager
from dataclasses import replace
from unittest.mock import Mock

import pytest
from filelock import FileLock

from kokoro_nb.__main__ import main
from kokoro_nb.cache_keys import code_digest
from kokoro_nb.errors import InputError
from kokoro_nb.findings import Finding, write_findings
from kokoro_nb.reporting import sweep
from kokoro_nb.reporting.execute import NotebookResult
from kokoro_nb.reporting.one_notebook import Limits
from kokoro_nb.reporting.runs import RunOutcome, RunRecord, content_key, read_run, read_runs
from kokoro_nb.reporting.selection import expand, read_notebook, read_spec
from kokoro_nb.reporting.sweep import CellError, run_cell, run_sweep, write_table
from tests.reporting.conftest import save_notebook

parquet = pytest.importorskip("pyarrow.parquet")
PARAMETERS = 'number = 0\nbackend = "eager"\nfolder = ""\nout_dir = None'
SPEC = """
notebook = "01"
[grid]
number = [1, 2]
backend = ["eager", "coreml", "tvm"]
[fixed]
folder = "x"
[requires]
backend.coreml = "coreml"
backend.tvm = ["tvm", "cuda"]
"""
# The third cell kills a worker, the fourth fails once, others need what is nowhere.
FAULTS = """\
import json, os, pathlib, signal
finding = dict(kind="size", verdict="pass", statement="It is small.", weights="none", value=number, limit=1000)
rows = [finding, {**finding, "kind": "sign", "value": "nan", "verdict": "fail", "limit": None}]
pathlib.Path(out_dir, "findings.json").write_text(json.dumps({"schema": 1, "finished": "now", "findings": rows}))
begun = pathlib.Path(folder, f"begun {number}")
first = not begun.exists()
begun.touch()
if number == 2 and first:
    os.kill(os.getppid(), signal.SIGKILL)
assert number != 3 or not first"""
FAULTY = """
notebook = "01"
retries = 1
[grid]
number = [0, 1, 2, 3]
backend = ["eager", "absent"]
[fixed]
folder = "{folder}"
[requires]
backend.absent = "cuda"
"""


def make_notebook(root, *sources, parameters=PARAMETERS, name="01_tiny"):
    """Save ``01_tiny`` with these cells after its parameters and return its folder."""
    return save_notebook(root / "notebooks", name, *sources, parameters=parameters)


def spec_of(folder, text='notebook = "01"'):
    """Return a sweep that is read from its text."""
    (folder / "spec.toml").write_text(text, encoding="utf-8")
    return read_spec(folder / "spec.toml")


def test_every_combination_is_a_cell_once_with_what_it_requires(tmp_path):
    folder = make_notebook(tmp_path)
    make_notebook(tmp_path, parameters="number = 0", name="02_other")
    cells = expand(spec_of(tmp_path, SPEC.replace('"01"', '["01", "02"]')), folder)
    first, other = cells[:6], cells[6:]
    values = [(cell.run.parameters["number"], cell.run.parameters["backend"]) for cell in first]
    assert values == [(number, backend) for number in (1, 2) for backend in ("eager", "coreml", "tvm")]
    assert [cell.resources for cell in cells[:3]] == [set(), {"coreml"}, {"tvm", "cuda"}]
    assert all(cell.run.parameters["folder"] == "x" for cell in first)
    assert len({cell.run.key for cell in cells}) == len({cell.run.notebook for cell in cells}) == 8
    assert cells[1].label == "01_tiny: number 1, backend coreml"
    assert [cell.run.parameters for cell in other] == [{"number": 1}, {"number": 2}], "it takes what it declares"
    assert other[1].run.key == content_key(read_notebook(folder / "02_other.ipynb"), {"number": 2})
    listed = SPEC.replace('["eager", "coreml", "tvm"]', '[["eager", "coreml"], ["tvm"], []]')
    resources = [cell.resources for cell in expand(spec_of(tmp_path, listed), folder)]
    assert resources[:3] == [{"coreml"}, {"tvm", "cuda"}, set()]


@pytest.mark.parametrize("value", ["../up", "ü" * 300, ""])
def test_a_name_is_the_name_of_a_folder_whatever_the_value(tmp_path, value):
    (cell,) = expand(spec_of(tmp_path, f'notebook = "01"\n[grid]\nfolder = ["{value}"]'), make_notebook(tmp_path))
    assert re.fullmatch(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,98}", cell.run.notebook)


BAD = {
    "no TOML": ("notebook = ", "cannot be read as TOML"),
    "unknown key": ('notebook = "01"\nworkers = 2', "no 'workers'; it may have notebook, grid"),
    "no notebook": ("[grid]\nnumber = [1]", "'notebook' of a sweep has to be"),
    "grid that is no table": ('notebook = "01"\ngrid = 3', "begin it with [grid]"),
    "one value in the grid": ('notebook = "01"\n[grid]\nnumber = 3', "a single value goes into [fixed]"),
    "a value twice": ('notebook = "01"\n[grid]\nnumber = [3, 4, 3]', "has the value 3 twice; leave one out"),
    "grid and fixed": ('notebook = "01"\n[grid]\nnumber = [3]\n[fixed]\nnumber = 4', "leave it out of one"),
    "a date": ('notebook = "01"\n[fixed]\nnumber = 2026-11-22', "value of no plain kind"),
    "out_dir": ('notebook = "01"\n[fixed]\nout_dir = "x"', "choose the folder with --out"),
    "requires without parameter": ('notebook = "01"\n[requires]\nbackend.a = "a"', "neither in [grid] nor in [fixed]"),
    "fewer than no retries": ('notebook = "01"\nretries = -1', "a whole number, 0 or more, not -1"),
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_sweep_is_reported_in_one_sentence(tmp_path, name):
    text, told = BAD[name]
    with pytest.raises(InputError, match=f"{re.escape(told)}.*[.]$") as caught:
        spec_of(tmp_path, text)
    assert "\n" not in str(caught.value)


@pytest.fixture(scope="module")
def swept(tmp_path_factory):
    """Return a sweep with faults on two workers, which compute the package's digest for themselves."""
    code_digest.cache_clear()
    root = tmp_path_factory.mktemp("swept")
    folder = make_notebook(root, FAULTS)
    spec = spec_of(root, FAULTY.format(folder=root))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sweep, "resources_here", lambda wanted: {})
        return root, folder, spec, run_sweep(spec, root / "out", workers=2, folder=folder)


def test_a_killed_worker_loses_no_cell_and_doubles_none(swept):
    root, _, _, results = swept
    assert (root / "begun 2").exists(), "a worker was killed"
    runs = [result.run for result in results]
    eager = [run for run in runs if run.parameters["backend"] == "eager"]
    assert [(run.parameters["number"], run.status) for run in eager] == [(n, "passed") for n in range(4)]
    names = sorted(run.notebook for run in runs)
    assert sorted(path.name for path in (root / "out" / "cells").iterdir()) == names
    assert sorted(record.notebook for record in read_runs(root / "out" / "cells")) == names
    absent = [run for run in runs if run not in eager]
    assert [run.status for run in absent] == ["skipped"] * 4
    assert {run.message for run in absent} == {"No connected worker announces cuda (connected: 2)."}
    assert sweep.resources_here({"eager", "tvm-metal", "nothing"}) == {"eager": 1}
    rows = parquet.read_table(root / "out" / "results.parquet").to_pylist()
    found = Counter((row["number"], row["backend"], row["kind"]) for row in rows)
    wanted = [(number, "eager", kind) for number in range(4) for kind in ("size", "sign")]
    assert found == Counter([*wanted, *((number, "absent", None) for number in range(4))])
    index = (root / "out" / "report" / "index.html").read_text(encoding="utf-8")
    assert "01_tiny: number 3, backend absent" in index
    assert index.count("No connected worker announces cuda") == 4


def test_what_passed_is_kept_and_what_is_no_longer_whole_is_executed_again(swept, monkeypatch):
    root, folder, spec, before = swept
    monkeypatch.setattr(sweep, "resources_here", lambda wanted: {})
    monkeypatch.setattr(sweep, "connected", _no_cluster)
    (root / "out" / "cells" / ".cell.k1ll3d").mkdir()  # of a worker that was killed
    (root / "out" / "results.parquet").write_text("PAR1")  # cut
    again = run_sweep(spec, root / "out", folder=folder)
    assert not (root / "out" / "cells" / ".cell.k1ll3d").exists()
    assert parquet.read_table(root / "out" / "results.parquet").num_rows == 12
    assert [new.unchanged for new in again] == [old.run.status == "passed" for old in before]
    passed = next(result for result in again if result.unchanged)
    (root / "out" / "cells" / passed.run.notebook / "findings.json").unlink()
    with pytest.raises(KeyboardInterrupt):
        run_sweep(spec, root / "out", folder=folder)
    rows = parquet.read_table(root / "out" / "results.parquet").to_pylist()
    assert [row["cell"] for row in rows if row["status"] == "interrupted"] == [passed.run.notebook]


@contextmanager
def _no_cluster(*_):
    """Yield a connection to a cluster on which whatever is handed out is interrupted by Ctrl-C."""

    client = Mock(loop=object(), scheduler_info=lambda n_workers: {"workers": {"a": {"resources": {}}}})
    client.submit.side_effect = KeyboardInterrupt
    yield client
    assert client.cancel.call_args.kwargs["force"]


def test_a_cell_that_takes_too_long_is_stopped_and_another_package_is_refused(tmp_path):
    (cell,) = expand(spec_of(tmp_path), make_notebook(tmp_path, "import time; time.sleep(60)"))
    with pytest.raises(InputError, match="The package of a worker is not the one that the sweep was started with"):
        run_cell(cell, tmp_path / "cell", "another", None, Limits())
    with pytest.raises(CellError, match=r"It was stopped after 2\.5 s, its limit of time; allow it more"):
        run_cell(cell, tmp_path / "cell", code_digest(), None, Limits(2.5))
    assert read_run(tmp_path / "cell").status == "timed out"


def test_bad_input_is_reported_before_anything_runs(monkeypatch, tmp_path):
    folder, out = make_notebook(tmp_path), tmp_path / "out"
    with monkeypatch.context() as patch:
        patch.setattr(sweep, "connected", lambda *_: pytest.fail("it was begun"))
        with pytest.raises(InputError, match="At least one worker is needed, not 0"):
            run_sweep(spec_of(tmp_path), out, workers=0, folder=folder)
        with pytest.raises(InputError, match="No selected notebook has a parameter 'nummer'"):
            run_sweep(spec_of(tmp_path, 'notebook = "01"\n[grid]\nnummer = [1]'), out, folder=folder)
        out.mkdir()
        with FileLock(out / ".lock"), pytest.raises(InputError, match="Another sweep is using"):
            run_sweep(spec_of(tmp_path), out, folder=folder)
    monkeypatch.setattr(sweep, "PATIENCE", 1)
    with pytest.raises(InputError, match=r"No scheduler answers at tcp://127\.0\.0\.1:9; start one"):
        run_sweep(spec_of(tmp_path), out, 2, "tcp://127.0.0.1:9", folder)


def test_the_command_tells_how_it_ended(monkeypatch, tmp_path, capsys):
    (tmp_path / "pyproject.toml").write_text('[project]\nname = "kokoro_nb"\n')
    make_notebook(tmp_path)
    (tmp_path / "mine.toml").write_text('notebook = "01"\n[grid]\nnumber = [1, 2]')
    monkeypatch.chdir(tmp_path)
    ends = ["passed", "skipped"]

    def pretend(spec, out, workers, scheduler):
        assert (spec.name, out, workers, scheduler) == ("mine", tmp_path / "outputs" / "sweeps" / "mine", 3, None)
        return [NotebookResult(RunRecord("a", status, "", {}, ""), False) for status in ends]

    monkeypatch.setattr(sweep, "run_sweep", pretend)
    assert main(["sweep", "mine.toml", "--workers", "3"]) == 0
    assert "2 cells: 1 passed, 1 skipped" in capsys.readouterr().out
    ends.append("failed")
    assert main(["sweep", "mine.toml", "--workers", "3"]) == 1
    assert main(["sweep", "mine.toml", "--workers", "3", "--scheduler", "tcp://a:1"]) == 2
    assert main(["sweep", "none.toml"]) == 2
    assert "There is no sweep at none.toml" in capsys.readouterr().err


def test_the_table_has_a_row_for_each_finding_and_one_for_a_cell_without(tmp_path):
    folder = make_notebook(tmp_path, parameters="limit = 0\nmixed = 0\nlisted = []")
    text = 'notebook = "01"\n[grid]\nlimit = [7, 8]\nmixed = [1, "a"]\n[fixed]\nlisted = ["x"]'
    cells = expand(spec_of(tmp_path, text), folder)
    findings = [
        Finding("parity", "pass", "They agree.", "mini", "tvm", 0.25, 0.5, "of peak", relation="<="),
        Finding("finite", "fail", "It is finite.", "mini", "tvm", float("nan"), None, tap="decode:mul"),
    ]
    write_findings(tmp_path / "cells" / cells[0].run.notebook / "findings.json", findings, weights="mini")
    ends = [(RunOutcome("passed"), 1.5), *[(RunOutcome("failed", "No.", "Mend it."), 2.5)] * 3]
    runs = [replace(cell.run.ended(how), seconds=took) for cell, (how, took) in zip(cells, ends, strict=True)]
    path = write_table(tmp_path / "results.parquet", cells, runs, tmp_path / "cells")
    first, second, failed, *_ = rows = parquet.read_table(path).to_pylist()
    assert [row["kind"] for row in rows] == ["parity", "finite", None, None, None]
    assert (first["value"], first["relation"], first["limit"], first["on_backend"]) == (0.25, "<=", 0.5, "tvm")
    assert math.isnan(second["value"]), "NaN is a figure"
    assert (failed["value"], failed["seconds"], failed["error"]) == (None, 2.5, "No.")
    assert [row["parameter_limit"] for row in rows] == [7, 7, 7, 8, 8], "it gives way to a column of its name"
    assert [row["mixed"] for row in rows[1:3]] == ["1", "a"], "several kinds in one column become text"
    assert failed["listed"] == ["x"]
