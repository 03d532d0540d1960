import json
import sys
from dataclasses import replace

import nbformat
import pytest

from kokoro_nb.__main__ import main
from kokoro_nb.findings import read_findings
from kokoro_nb.reporting import execute
from kokoro_nb.reporting.execute import run_notebooks
from kokoro_nb.reporting.html import Report
from kokoro_nb.reporting.logbook import now
from kokoro_nb.reporting.runs import RunRecord, read_run, write_run
from tests.refusals import refused
from tests.reporting.conftest import save_notebook


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    """Four notebooks, run once, two at a time, while a kernel of the usual name that cannot start is installed."""
    root = tmp_path_factory.mktemp("pro{ject}")  # papermill takes braces in a path for its own
    kernels = root / "jupyter" / "kernels" / "python3"
    kernels.mkdir(parents=True)
    shadow = {"argv": ["/bin/false"], "display_name": "Python 3", "language": "python"}
    (kernels / "kernel.json").write_text(json.dumps(shadow))
    folder = root / "notebooks"
    folder.mkdir()
    save_notebook(
        folder,
        "01_good",
        "import os, sys, pathlib",
        "print(sys.executable, os.environ['PYTHONWARNINGS'], 'OMP_NUM_THREADS' in os.environ)",
        "import logging; logging.getLogger('torchao').warning('Failed to load x.so: no such library')",
        "pathlib.Path('here.txt').write_text(weights); pathlib.Path(out_dir, 'there.txt').touch()",
    )
    save_notebook(folder, "02_bad", "print('before')", "raise ValueError('<script>alert()</script>')", "print('after')")
    save_notebook(folder, "03_plain", "assert 'weights' not in globals()", parameters="")
    save_notebook(folder, "04_kernel_dies", "import os; os.abort()", parameters="")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JUPYTER_PATH", str(root / "jupyter"))
        outcomes = run_notebooks([], {"weights": "narrow"}, 2, root / "run", folder=folder)
    return root, {outcome.run.notebook: outcome.run for outcome in outcomes}


def again(project, selection, parameters=None, **options):
    root, _ = project
    parameters = {"weights": "narrow"} if parameters is None else parameters
    return run_notebooks(selection, parameters, 1, root / "run", folder=root / "notebooks", **options)


def output(root, name):
    notebook = nbformat.read(root / "run" / name / f"{name}.ipynb", as_version=4)
    return "".join(output.get("text", "") for cell in notebook.cells for output in cell.get("outputs", []))


def test_a_notebook_that_fails_does_not_stop_the_others(project):
    root, runs = project
    statuses = ["passed", "failed", "passed", "crashed"]
    assert [(name[:2], run.status) for name, run in runs.items()] == [(f"0{n}", s) for n, s in enumerate(statuses, 1)]
    assert all(read_run(root / "run" / name) == run for name, run in runs.items())
    good, bad, dead = runs["01_good"], runs["02_bad"], runs["04_kernel_dies"]
    assert list(good.files) == ["01_good.ipynb", "here.txt", "there.txt"]
    assert (root / "run" / "01_good" / "here.txt").read_text() == "narrow"
    assert output(root, "01_good").split() == [sys.executable, "ignore", "True"], "whatever kernel is installed"
    assert bad.error == "ValueError: <script>alert()</script>"
    assert output(root, "02_bad") == "before\n", "it is complete up to its error"
    assert "DeadKernelError" in dead.error
    assert "Fatal Python error: Aborted" in dead.error, "and why"
    assert {path.suffix for path in (root / "notebooks").iterdir()} == {".ipynb"}, "nothing is written beside them"


def test_a_notebook_outside_any_checkout_works_where_it_lies_and_its_log_goes_into_the_run(
    project, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "beside.py").write_text("ANSWER = 42")
    logged = "Logbook('mine', 'own', {}).check('answer', 'It is 42.', ANSWER, 42, '==')"
    source = f"from kokoro_nb.reporting.logbook import Logbook\nfrom beside import ANSWER\n{logged}"
    save_notebook(tmp_path, "01_mine", source, parameters="")
    refused(r"'01' may be .*01_good.* or .*01_mine", again, project, ["01"])
    assert main(["report", "01_mine.ipynb"]) == 0
    (row,) = read_findings(tmp_path / "outputs" / "run" / "01_mine" / "findings.json")[0]
    assert (row.kind, row.verdict) == ("answer", "pass")
    assert "It is 42." in (tmp_path / "outputs" / "report" / "01_mine.html").read_text()
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    assert main(["report", "--render-only", "--out", "../outputs"]) == 0, "it is still there"
    assert "no notebook 01_mine" not in (tmp_path / "outputs" / "report" / "01_mine.html").read_text()
    assert main(["run", "../01_mine.ipynb", "--out", "mine"]) == 0
    assert (elsewhere / "mine" / "run" / "01_mine" / "findings.json").exists()


LOGGED = """\
from kokoro_nb.reporting.logbook import Logbook
log = Logbook("x", "own", {}, out_dir)
for value in (1, 5):
    log.check("k", f"{value} is small.", value, 2)"""


def test_a_failed_check_stops_nothing_and_fails_the_run(tmp_path):
    save_notebook(tmp_path, "01_closed", LOGGED, "print('after it')", "log.close()")
    save_notebook(tmp_path, "02_never_closed", LOGGED, "print('after it')")
    first, second = (one.run for one in run_notebooks([], {}, 1, tmp_path / "run", folder=tmp_path))
    assert (first.status, second.status) == ("checks failed", "checks failed")
    assert first.error == "ChecksError: 1 of 2 checks failed:\n- 5 is small. (measured 5, required <= 2)"
    assert "log.close() was not called: 5 is small." in second.error
    for run in (first, second):
        assert "after it" in output(tmp_path, run.notebook)
        findings, about = read_findings(tmp_path / "run" / run.notebook / "findings.json")
        assert [one.verdict for one in findings] == ["pass", "fail"]
        assert (about["finished"] is None) == (run is second)
    index = Report(tmp_path / "run", tmp_path / "report").close()
    assert "did not reach the end" not in index.read_text(encoding="utf-8")


@pytest.fixture
def executed(monkeypatch):
    """Names of the notebooks that would be executed, none of which is."""
    names = []

    def pretend(jobs, at_once, progress, on_change):
        names.extend(job.run.notebook for job in jobs)
        return [replace(job.run, status="passed") for job in jobs]

    monkeypatch.setattr(execute, "_run_all", pretend)
    return names


def test_what_passed_is_kept_and_fresh_other_parameters_a_failure_or_an_interrupt_execute_again(
    project, executed, capfd
):
    root, runs = project
    (kept,) = again(project, ["01"])
    assert (kept.unchanged, kept.run) == (True, runs["01_good"])
    assert f"01_good: unchanged (executed at {kept.run.started})" in capfd.readouterr().err
    again(project, ["01"], fresh=True)
    again(project, ["01"], {"weights": "seeded"})
    again(project, ["02", "03"])
    for status in ("running", "interrupted"):
        write_run(root / "run" / "03_plain", replace(runs["03_plain"], status=status))
        again(project, ["01", "03"])
    write_run(root / "run" / "03_plain", runs["03_plain"])
    assert executed == ["01_good", "01_good", "02_bad", "03_plain", "03_plain"]


def test_what_says_whether_an_export_works_begins_first_and_then_what_took_longest(executed, tmp_path):
    took = {"00_a": 9.0, "01_b": 1.0, "04_b": 3.0, "05_c": 8.0, "06_d": 2.0, "07_e": None, "08_f": 5.0}
    for name, seconds in took.items():
        save_notebook(tmp_path, name)
        (tmp_path / "run" / name).mkdir(parents=True)
        if seconds:
            write_run(tmp_path / "run" / name, RunRecord(name, "passed", "another", {}, now(), seconds))
    run_notebooks([], {}, 1, tmp_path / "run", folder=tmp_path)
    assert executed == ["01_b", "05_c", "04_b", "07_e", "00_a", "08_f", "06_d"], "what was never measured may be long"


def test_bad_input_is_reported_before_anything_runs(project, executed, tmp_path):
    for selection, parameters, match in (
        (["09"], None, "no notebook '09'"),
        (["03"], None, "No selected notebook has a parameter 'weights'"),
        (["01"], {"out_dir": "x"}, "choose the folder with --out"),
    ):
        refused(match, again, project, selection, parameters)
    refused("At least one job", run_notebooks, [], {}, 0, tmp_path, folder=project[0] / "notebooks")
    (tmp_path / "01_good").mkdir()
    (tmp_path / "01_good" / "thesis.txt").write_text("mine")
    refused("something else than a run", run_notebooks, ["01"], {}, 1, tmp_path, folder=project[0] / "notebooks")
    assert (tmp_path / "01_good" / "thesis.txt").read_text() == "mine"
    assert executed == []
