"""Sounds that the tests of the figures draw, and a browser for those of the pages."""

import shutil
from pathlib import Path

import nbformat
import numpy as np
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from kokoro_nb.reporting.html import Report
from kokoro_nb.reporting.runs import RunRecord, write_run
from kokoro_nb.storage import file_digest

SR = 24_000
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
SERIOUS = {"serious", "critical"}


@pytest.fixture
def voice():
    """Return half a second of a 150 Hz tone with overtones."""
    time = np.arange(12_000) / SR
    return sum(np.sin(2 * np.pi * 150 * k * time) / k for k in range(1, 20)) * 0.2 * np.hanning(12_000)


@pytest.fixture
def broken(voice):
    """Return it with a quarter of it NaN."""
    candidate = voice.copy()
    candidate[3000:6000] = np.nan
    return candidate


@pytest.fixture(scope="module")
def browser():
    """Return a browser."""
    sync = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    if CHROMIUM is None:
        pytest.skip("there is no Chromium here")
    with sync.sync_playwright() as tool:
        launched = tool.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
        yield launched
        launched.close()


@pytest.fixture(scope="module")
def open_page(browser):
    """Return a function that opens a file, and gives the page and what it asked the network for or broke down at."""
    context = browser.new_context(offline=True)

    def opened(path, before=""):
        page, trouble = context.new_page(), []
        page.add_init_script(before)
        page.on("requestfailed", lambda asked: trouble.append(asked.url))
        page.on("pageerror", lambda error: trouble.append(str(error)))
        page.on("console", lambda said: trouble.append(said.text) if said.type in ("error", "warning") else None)
        page.goto(path.as_uri())
        return page, trouble

    return opened


@pytest.fixture
def violations():
    """Return a function that names what axe finds serious or worse on a page, light or dark."""
    sync = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe is not installed")

    def found(page, context=None):
        names = set()
        for scheme in ("dark", "light"):
            page.emulate_media(color_scheme=scheme)
            rows = sync.Axe().run(page, context=context).response["violations"]
            names |= {one["id"] for one in rows if one["impact"] in SERIOUS}
        return sorted(names)

    return found


def save_notebook(folder, name, *sources, parameters='weights = "seeded"\nout_dir = None'):
    """Write a notebook of a title, a cell of parameters if there are any, and these cells; return its folder."""
    cells = [new_markdown_cell(f"# {name}")]
    cells += [new_code_cell(parameters, metadata={"tags": ["parameters"]})] if parameters else []
    folder.mkdir(parents=True, exist_ok=True)
    notebook = new_notebook(cells=[*cells, *map(new_code_cell, sources)])
    nbformat.write(notebook, folder / f"{name}.ipynb")
    return folder


def keep_run(folder, cells, status="passed", error="", seconds=1.0):
    """Write an executed notebook into a folder of its name, with the record of its run, which is returned."""
    folder.mkdir(parents=True, exist_ok=True)
    name = f"{folder.name}.ipynb"
    nbformat.write(new_notebook(cells=cells), folder / name)
    files = {path.name: file_digest(path) for path in (folder / name, *folder.glob("*.png"))}
    run = RunRecord(folder.name, status, "key", {}, "2026-11-21T09:44:07+00:00", seconds, error, files=files)
    write_run(folder, run)
    return run


def moved_report(root, elsewhere):
    """Render what lies in ``run`` of a folder, and return where the report was moved to."""
    Report(root / "run", root / "report").close()
    return Path(shutil.move(root / "report", elsewhere / "moved"))
