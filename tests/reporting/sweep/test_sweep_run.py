from collections import Counter
from contextlib import contextmanager
from types import SimpleNamespace

import pytest
from filelock import FileLock

from kokoro_nb.__main__ import main
from kokoro_nb.cache_keys import code_digest
from kokoro_nb.errors import InputError
from kokoro_nb.reporting import sweep
from kokoro_nb.reporting.execute import NotebookResult
from kokoro_nb.reporting.runs import RunRecord, read_runs
from kokoro_nb.reporting.sweep import run_sweep
from kokoro_nb.reporting.sweep_grid import expand
from tests.reporting.sweep.conftest import MEASURE, make_notebook, spec_of

parquet = pytest.importorskip("pyarrow.parquet")

FAULTS = """\
import os, signal
begun = pathlib.Path(folder, f"begun {number}")
first = not begun.exists()
begun.touch()
if number == 2 and first:
    os.kill(os.getppid(), signal.SIGKILL)
assert number != 3 or not first"""
TEXT = """
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


@pytest.fixture(scope="module", autouse=True)
def _package_as_it_is_now():
    code_digest.cache_clear()  # the workers compute it for themselves


@pytest.fixture(scope="module")
def swept(tmp_path_factory):
    """A sweep on two workers: the third cell kills one, the fourth fails once, others need what is nowhere."""
    root = tmp_path_factory.mktemp("swept")
    folder = make_notebook(root, MEASURE, FAULTS)
    spec = spec_of(root, TEXT.format(folder=root))
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
    assert all(row["value"] == row["number"] for row in rows if row["kind"] == "size")
    assert (root / "out" / "report" / "index.html").is_file()


def test_what_passed_is_kept_and_what_is_no_longer_whole_is_executed_again(swept, monkeypatch):
    root, folder, spec, before = swept
    monkeypatch.setattr(sweep, "resources_here", lambda wanted: {})
    monkeypatch.setattr(sweep, "connected", _no_cluster)
    (root / "out" / "cells" / ".cell.k1ll3d").mkdir()  # of a worker that was killed
    (root / "out" / "results.parquet").write_text("PAR1")  # cut
    again = run_sweep(spec, root / "out", folder=folder)
    assert not (root / "out" / "cells" / ".cell.k1ll3d").exists()
    assert parquet.read_table(root / "out" / "results.parquet").num_rows == 12
    for old, new in zip(before, again, strict=True):
        assert new.unchanged == (old.run.status == "passed")
        assert new.run == old.run if new.unchanged else new.run.status == old.run.status
    passed = next(result for result in again if result.unchanged)
    (root / "out" / "cells" / passed.run.notebook / "findings.json").unlink()
    with pytest.raises(KeyboardInterrupt):
        run_sweep(spec, root / "out", folder=folder)
    rows = parquet.read_table(root / "out" / "results.parquet").to_pylist()
    assert [row["cell"] for row in rows if row["status"] == "interrupted"] == [passed.run.notebook]


@contextmanager
def _no_cluster(*_):
    """Yield a connection to a cluster on which whatever is handed out is interrupted by Ctrl-C."""

    class Client:
        loop = object()  # it is no default client

        def scheduler_info(self, n_workers):
            return {"workers": {"a": {"resources": {}}}}

        def submit(self, *_, **options):
            raise KeyboardInterrupt

        def cancel(self, futures, force):
            assert force

    yield Client()


def test_a_cell_that_the_scheduler_forgot_did_not_come_to_its_end(tmp_path):
    (cell,) = expand(spec_of(tmp_path, 'notebook = "01"'), make_notebook(tmp_path))
    assert sweep._result(cell, SimpleNamespace(status="cancelled"), tmp_path / "cell").status == "interrupted"


def test_bad_input_is_reported_before_anything_runs(monkeypatch, tmp_path):
    monkeypatch.setattr(sweep, "connected", lambda *_: pytest.fail("it was begun"))
    folder = make_notebook(tmp_path)
    spec = spec_of(tmp_path, 'notebook = "01"\n[grid]\nnumber = [1]')
    with pytest.raises(InputError, match="At least one worker is needed, not 0"):
        run_sweep(spec, tmp_path / "out", workers=0, folder=folder)
    with pytest.raises(InputError, match="No selected notebook has a parameter 'nummer'"):
        run_sweep(spec_of(tmp_path, 'notebook = "01"\n[grid]\nnummer = [1]'), tmp_path / "out", folder=folder)
    assert not (tmp_path / "out").exists()
    (tmp_path / "out").mkdir()
    with FileLock(tmp_path / "out" / ".lock"), pytest.raises(InputError, match="Another sweep is using"):
        run_sweep(spec, tmp_path / "out", folder=folder)
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match="Cannot write"):
        run_sweep(spec, tmp_path / "file" / "out", folder=folder)


def test_no_scheduler_is_bad_input(monkeypatch, tmp_path):
    monkeypatch.setattr(sweep, "PATIENCE", 1)
    with pytest.raises(InputError, match=r"No scheduler answers at tcp://127\.0\.0\.1:9; start one"):
        run_sweep(
            spec_of(tmp_path, 'notebook = "01"'), *(tmp_path / "out", 2, "tcp://127.0.0.1:9", make_notebook(tmp_path))
        )


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
