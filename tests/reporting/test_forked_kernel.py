"""Kernels that are forked with the imports done; that they end, crash and stop as others do is in test_execute.py."""

import subprocess
import sys
import time

import nbformat
import psutil
import pytest
from nbformat.v4 import new_code_cell, new_notebook

from kokoro_nb.reporting import warm_start
from kokoro_nb.reporting.execute import run_notebooks
from kokoro_nb.reporting.limits import Limits
from kokoro_nb.reporting.notebook_process import environment_of
from kokoro_nb.reporting.runs import read_run

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="processes are forked on Linux only")


@pytest.fixture
def warm(monkeypatch):
    monkeypatch.setattr(warm_start, "ENOUGH", 1)


def _run(folder, *sources):
    nbformat.write(new_notebook(cells=[new_code_cell(source) for source in sources]), folder / "00_look.ipynb")
    (ended,) = run_notebooks([], {}, 1, folder / "run", folder=folder)
    return ended.run


def test_it_has_its_imports_done_and_its_own_environment_folder_session_and_streams(warm, tmp_path, monkeypatch):
    _run(tmp_path, "1")  # the process that is forked lives from here on at the latest
    monkeypatch.setenv("WHAT_IS_NEW", "so it is")
    checks = (
        "import os, sys",
        "assert os.environ['WHAT_IS_NEW'] == 'so it is'",
        f"assert os.environ['PYTHONWARNINGS'] == {environment_of(None)['PYTHONWARNINGS']!r}",
        "assert {'torch', 'kokoro', 'executorch.exir'} <= set(sys.modules)",
        "assert os.getsid(0) == os.getpid()",
        "assert os.path.samefile('.', os.environ['KOKORO_NB_OUT_DIR'])",
        "assert os.readlink('/proc/self/fd/0') == os.devnull",
        "import time; held = b'x' * 100_000_000; time.sleep(1.2)",
    )
    run = _run(tmp_path, *checks)
    assert (run.status, run.error) == ("passed", "")
    assert run.memory > 0.2, "what was forked before the measurement began is measured as well"


def test_what_it_shares_with_what_it_is_forked_from_counts_in_part(warm, tmp_path):
    write = "open('resident', 'w').write(str(psutil.Process().memory_info().rss))"
    run = _run(tmp_path, f"import psutil, time; {write}; time.sleep(1.2)")
    resident = int((tmp_path / "run" / "00_look" / "resident").read_text()) / 1e9
    assert 0 < run.memory < 0.8 * resident, "the libraries are in both"


def test_a_variable_that_is_gone_is_gone_in_it(warm, tmp_path, monkeypatch):
    monkeypatch.setenv("WHAT_IS_NEW", "so it is")
    assert _run(tmp_path, "import os; assert 'WHAT_IS_NEW' in os.environ").status == "passed"
    monkeypatch.delenv("WHAT_IS_NEW")
    assert _run(tmp_path, "import os; assert 'WHAT_IS_NEW' not in os.environ").status == "passed"


def test_what_it_prints_as_it_crashes_is_in_the_record(warm, tmp_path):
    run = _run(tmp_path, "import os; os.write(2, b'the last word'); os.abort()")
    assert run.status == "crashed"
    assert "the last word" in read_run(tmp_path / "run" / "00_look").error


def test_what_it_prints_as_it_crashes_before_the_first_cell_is_in_the_record(warm, tmp_path, monkeypatch):
    startup = tmp_path / "ipython" / "profile_default" / "startup"
    startup.mkdir(parents=True)
    (startup / "00.py").write_text("import os; os.write(2, b'the first word'); os.abort()")
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    run = _run(tmp_path, "1")
    assert run.status == "crashed"
    assert "the first word" in read_run(tmp_path / "run" / "00_look").error


def test_its_limits_hold_before_it_is_a_kernel(warm, tmp_path):
    nbformat.write(new_notebook(cells=[new_code_cell("import time; time.sleep(9)")]), tmp_path / "00_look.ipynb")
    (ended,) = run_notebooks([], {}, 1, tmp_path / "run", folder=tmp_path, limits=Limits(memory=0.05))
    assert ended.run.status == "out of memory"


def test_one_that_was_killed_before_it_began_is_an_error_of_its_own():
    script = """
import os
from kokoro_nb.reporting.forked_kernel import ForkedKernel
kernel = ForkedKernel(lambda: None)
kernel.kill()
assert kernel.wait() == -9
try:
    kernel.begin([], dict(os.environ), ".", 2)
except RuntimeError as error:  # a broken pipe would be taken for that to the parent process
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("The process that was to become the kernel has ended.\n", "")


def test_its_interrupt_is_an_interrupt(warm, tmp_path):
    source = "import os, signal\ntry:\n    os.kill(os.getpid(), signal.SIGINT)\nexcept KeyboardInterrupt:\n    print(1)"
    assert _run(tmp_path, source).status == "passed"


@pytest.mark.parametrize("order", ["", "kernel.begin(ARGUMENTS, ENVIRONMENT, '.', 2)"])
def test_it_ends_with_what_forked_it(order, tmp_path):
    begun = tmp_path / "connection.json"
    environment = "{**os.environ, 'JPY_PARENT_PID': str(os.getpid())}"
    script = f"""
import os, time
from kokoro_nb.reporting.forked_kernel import ForkedKernel
kernel = ForkedKernel(lambda: None)
print(kernel.pid, flush=True)
ARGUMENTS, ENVIRONMENT = ["-f", {str(begun)!r}], {environment}
{order}
time.sleep(60)
"""
    process = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    forked = int(process.stdout.readline())
    _until(begun.exists if order else lambda: psutil.pid_exists(forked))
    process.kill()
    process.wait()
    process.stdout.close()
    _until(lambda: not psutil.pid_exists(forked) or psutil.Process(forked).status() == psutil.STATUS_ZOMBIE)


def test_other_settings_and_few_notebooks_get_processes_that_begin_anew(monkeypatch):
    settings = environment_of(None)
    monkeypatch.setattr(warm_start, "_begun", [settings])
    few, warm = warm_start.start_context(warm_start.ENOUGH - 1, settings)
    assert (few.get_start_method(), warm) == ("spawn", False)
    other, warm = warm_start.start_context(warm_start.ENOUGH, {**settings, "OMP_NUM_THREADS": "7"})
    assert (other.get_start_method(), warm) == ("spawn", False)


def test_what_is_imported_once_begins_no_thread_of_python():
    script = "import threading, sys, kokoro_nb.reporting.warm_imports as warm\n"
    script += "print(threading.active_count(), [name for name in warm.NAMES if name not in sys.modules])"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.split(maxsplit=1) == ["1", "[]\n"]
    assert done.stderr == "", "it would stand on the screen at the end of a run"


def _until(happened):
    end = time.monotonic() + 30
    while not happened():
        assert time.monotonic() < end
        time.sleep(0.1)
