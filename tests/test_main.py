import signal
import subprocess
import sys

import pytest

from kokoro_nb.__main__ import main
from kokoro_nb.commands import studies_command
from kokoro_nb.reporting import execute
from kokoro_nb.reporting.execute import NotebookResult
from kokoro_nb.reporting.one_notebook import Limits
from kokoro_nb.reporting.runs import RunRecord, write_run
from tests.reporting.conftest import save_notebook


@pytest.fixture
def project(tmp_path, monkeypatch):
    (tmp_path / "pyproject.toml").write_text('[project]\nname = "kokoro_nb"\n')
    for name in ("01_a", "02_b"):
        save_notebook(tmp_path / "notebooks", name, parameters='weights = "seeded"\nbackends = ["eager"]')
    monkeypatch.chdir(tmp_path / "notebooks")
    return tmp_path


@pytest.fixture
def calls(monkeypatch):
    """What `run_notebooks` was called with; it leaves a record of the status that is wanted."""
    seen = {"status": "passed"}

    def pretend(selection, parameters, jobs, out_dir, fresh, limits, on_change):
        on_change()
        seen.update(selection=selection, parameters=parameters, jobs=jobs, out_dir=out_dir, fresh=fresh, limits=limits)
        run = RunRecord("01_a", seen["status"], "key", {}, "2026-11-21T09:44:07+00:00", 1.0)
        write_run(out_dir / "01_a", run)
        return [NotebookResult(run, False)]

    monkeypatch.setattr(execute, "run_notebooks", pretend)
    return seen


def test_run_passes_on_what_was_asked_for(project, calls, capsys):
    arguments = ["run", "01", "02", "-p", "weights", "narrow", "-p", "backends", "[eager]", "--jobs", "2", "--fresh"]
    assert main([*arguments, "--timeout", "60", "--memory", "1.5"]) == 0
    assert calls == {
        "status": "passed",
        "selection": ["01", "02"],
        "parameters": {"weights": "narrow", "backends": ["eager"]},
        "jobs": 2,
        "out_dir": project / "outputs" / "run",
        "fresh": True,
        "limits": Limits(60, 1.5),
    }
    assert str(project / "outputs" / "run") in capsys.readouterr().out


def test_report_runs_and_renders_and_a_failed_notebook_is_exit_status_1(project, calls, capsys):
    assert main(["report", "01"]) == 0
    assert (project / "outputs" / "report" / "01_a.html").is_file()
    assert capsys.readouterr().out == f"Report: {project / 'outputs' / 'report' / 'index.html'}\n"
    calls["status"] = "failed"
    assert main(["run"]) == 1
    assert main(["report", "--out", str(project / "here")]) == 1


def test_an_interrupt_is_exit_status_130_and_its_report_waits_for_nothing(project, monkeypatch, capsys):
    def pretend(*_, out_dir=None, on_change, **__):
        on_change()
        folder = project / "outputs" / "run"
        write_run(folder / "01_a", RunRecord("01_a", "interrupted", "key", {}, "2026-11-21T09:44:07+00:00", 1.0))
        raise KeyboardInterrupt

    monkeypatch.setattr(execute, "run_notebooks", pretend)
    for verb in ("run", "report"):
        assert main([verb]) == 130
        assert "goes on from here" in capsys.readouterr().err
    page = (project / "outputs" / "report" / "index.html").read_text(encoding="utf-8")
    assert 'http-equiv="refresh"' not in page
    monkeypatch.setattr(execute, "run_notebooks", lambda *_, **__: signal.raise_signal(signal.SIGTERM))
    assert main(["run"]) == 143
    assert "ended by SIGTERM; the same command goes on from here" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["run", "07"], "There is no notebook '07'; there are: 01_a, 02_b."),
        (["run", "--timeout", "0"], "A limit of time has to be above 0 seconds, not 0.0; leave it out for none."),
        (["run", "--jobs", "two"], "invalid int value: 'two'; see kokoro-nb run --help."),
        (["report", "--render-only"], "Nothing has been run in"),
        (["report", "--render-only", "--fresh"], "--render-only runs nothing"),
        (["dance"], "invalid choice: 'dance'"),
        ([], "see kokoro-nb --help."),
    ],
)
def test_bad_input_is_one_sentence_and_exit_status_2(project, capsys, arguments, sentence):
    assert main(arguments) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("kokoro-nb: ")
    assert sentence in captured.err
    assert captured.err.count("\n") == 1


def test_help_and_version(capsys):
    for option in ("--version", "--help"):
        with pytest.raises(SystemExit, match="0"):
            main([option])
    text = capsys.readouterr().out
    assert all(word in text for word in ("kokoro-nb 0.1.0\n", "doctor", "run", "report", "exit status"))
    assert len(text.splitlines()) < 36  # a line for each of 22 commands


def test_a_fault_of_our_own_is_one_sentence_and_exit_status_4(monkeypatch, capsys):
    monkeypatch.setattr(studies_command, "_weights", lambda arguments: {}["filled"])
    assert main(["weights", "mini"]) == 4
    printed = capsys.readouterr().err
    assert printed.startswith("kokoro-nb: KeyError: 'filled', at test_main.py:")
    assert printed.count("\n") == 1


def test_a_reader_that_has_enough_is_no_fault_of_ours():
    heads = "import sys; from kokoro_nb import __main__ as m; from kokoro_nb.commands import notebooks as n"
    many = "n.add = lambda c: c.add_parser('x').set_defaults"
    script = f"{heads}; {many}(command=lambda a: [print('y' * 9999) for _ in range(999)]); sys.exit(m.main(['x']))"
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        process.stdout.readline()
        process.stdout.close()
        assert process.wait() == 128 + signal.SIGPIPE
        assert process.stderr.read() == b""
