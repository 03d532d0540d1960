"""A project with two tiny notebooks, and a workshop in which one fault at a time befalls it."""

import shutil
import subprocess
import sys
import time
from collections import Counter

import pytest
from bs4 import BeautifulSoup

from kokoro_nb.cache_keys import code_digest
from kokoro_nb.reporting.execute import run_notebooks
from kokoro_nb.reporting.html import Report
from tests.reporting.conftest import save_notebook

# Each execution is counted outside of its folder; a fault is a script that is there, or not.
COUNT = """\
import json, os, pathlib, signal, sys, time
with open(os.environ["KOKORO_NB_TALLY"], "a") as tally: tally.write(pathlib.Path(out_dir).name + "\\n")
rows = [dict(kind="size", verdict="pass", statement="It is small.", weights="none")]
pathlib.Path(out_dir, "findings.json").write_text(json.dumps({"schema": 1, "findings": rows}))"""
FAULT = """\
script = pathlib.Path(os.environ["KOKORO_NB_FAULT"])
if script.exists() and "02" in pathlib.Path(out_dir).name: exec(script.read_text())"""
RESULT = "pathlib.Path(out_dir, 'result.txt').write_text('whole')"
# the command, of one version however the package is edited meanwhile
COMMAND = (
    "import signal, sys; signal.signal(signal.SIGINT, signal.default_int_handler); "  # a shell's background ignores it
    "from kokoro_nb import cache_keys; cache_keys.code_digest = lambda *rooms: {!r}; "
    "from kokoro_nb.__main__ import main; sys.exit(main())"
)


def cut(path):
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def flip(path):
    raw = bytearray(path.read_bytes())
    raw[len(raw) // 2] ^= 1
    path.write_bytes(raw)


class Workshop:
    """One copy of what the project has run, and everything that can be done with it."""

    def __init__(self, project, folder):
        self.project, self.root = project, folder
        self.run_dir, self.hit = folder / "run", folder / "run" / "02_hit"
        self.notebooks = project / "notebooks"
        self.script, self.counted = folder / "fault.py", folder / "tally.txt"

    def plan(self, source):
        """Have the second notebook execute `source` in its second cell, from now on."""
        self.script.write_text(source)

    def run(self, **options):
        """Run both notebooks in this process."""
        outcomes = run_notebooks([], {}, 1, self.run_dir, folder=self.notebooks, **options)
        return {outcome.run.notebook: outcome for outcome in outcomes}

    def command(self, *arguments, **options):
        """Begin the command line in a process group of its own, which hears Ctrl-C."""
        command = [sys.executable, "-c", COMMAND.format(code_digest()), *arguments, "--out", str(self.root)]
        pipes = {"stderr": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        return subprocess.Popen(command, cwd=self.project, **pipes, process_group=0, **options)

    def wait_for(self, name):
        """Return what stands in the file `name` that the second notebook writes in its folder."""
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            if (self.hit / name).is_file() and (self.hit / name).read_text():
                return (self.hit / name).read_text()
            time.sleep(0.05)
        raise TimeoutError(f"no {name} in {self.hit}")

    def report(self, name="02_hit", **options):
        """Render the report and return what it says of a notebook: its state, and its sentence."""
        index = Report(self.run_dir, self.root / "report", **options).close()
        page = BeautifulSoup(index.read_text(encoding="utf-8"), "html.parser")
        sentence = ""
        for banner in page(class_="banner"):
            if banner.a.text == name:
                for part in banner(["strong", "span"]):
                    part.extract()
                sentence = " ".join(banner.text.split())
        own = BeautifulSoup((self.root / "report" / f"{name}.html").read_text(encoding="utf-8"), "html.parser")
        assert sentence in " ".join(own.text.split()), "the page says the same"
        return page.find(id=name).find(class_="state").text, sentence

    def tally(self):
        """Return how often each notebook was begun."""
        return Counter(self.counted.read_text().split() if self.counted.exists() else [])

    def resume(self, kept=("01_done",), done=("02_hit",)):
        """Run again without the fault: what was whole is kept, and the rest executed once."""
        self.script.unlink(missing_ok=True)
        before = self.tally()
        outcomes = self.run()
        assert {name: outcome.run.status for name, outcome in outcomes.items()} == dict.fromkeys(outcomes, "passed")
        assert sorted(name for name, outcome in outcomes.items() if outcome.unchanged) == sorted(kept)
        assert self.tally() - before == Counter(done), "what was whole is not done again, and the rest once"
        assert all((self.run_dir / name / "result.txt").read_text() == "whole" for name in outcomes)
        assert not list(self.run_dir.glob(".0*")), "nothing half-written is left"
        states = {name: self.report(name)[0] for name in outcomes}
        assert states == dict.fromkeys(outcomes, "completed")


@pytest.fixture(scope="session")
def project(tmp_path_factory):
    """Two notebooks, and beside them `both`, in which both passed, and `first`, in which one did."""
    root = tmp_path_factory.mktemp("project")
    (root / "pyproject.toml").write_text('[project]\nname = "kokoro_nb"\n')
    for name in ("01_done", "02_hit"):
        save_notebook(root / "notebooks", name, COUNT, FAULT, RESULT, parameters="out_dir = None")
    code_digest.cache_clear()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("KOKORO_NB_TALLY", str(root / "tally.txt"))
        patch.setenv("KOKORO_NB_FAULT", str(root / "none.py"))
        run_notebooks([], {}, 1, root / "both" / "run", folder=root / "notebooks")
    shutil.copytree(root / "both", root / "first")
    shutil.rmtree(root / "first" / "run" / "02_hit")
    return root


@pytest.fixture
def workshop(project, tmp_path, monkeypatch):
    """Return a function that opens a workshop on a copy of ``both`` or ``first``, in another folder if need be."""

    def opened(which, folder=tmp_path):
        shutil.copytree(project / which, folder, dirs_exist_ok=True)
        shop = Workshop(project, folder)
        shop.script, shop.counted = tmp_path / "fault.py", tmp_path / "tally.txt"
        monkeypatch.setenv("KOKORO_NB_TALLY", str(shop.counted))
        monkeypatch.setenv("KOKORO_NB_FAULT", str(shop.script))
        return shop

    return opened
