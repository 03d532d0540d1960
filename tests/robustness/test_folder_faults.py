"""What befalls folders and disks: nothing is half-written, what cannot begin says why, and the next run goes on."""

import shutil
import subprocess
from contextlib import suppress

import pytest

from kokoro_nb.errors import InputError
from kokoro_nb.reporting.report_files import Report
from kokoro_nb.reporting.runs import read_runs
from kokoro_nb.storage import write_text

FILL = """\
with open({!r}, "wb") as others:
    while True: others.write(bytes(4096)); others.flush()"""
REFUSED = "refused (exit status 2)"


def refused(shop, *arguments):
    """Run the command line, which must refuse with status 2, and return its one sentence."""
    run = shop.command(*arguments)
    printed, said = run.communicate(timeout=60)
    assert (run.returncode, printed) == (2, "")
    *_, last = said.splitlines()  # before it may stand which notebooks are kept
    assert last.startswith("kokoro-nb: ")
    assert "Traceback" not in said
    return last


def fill(place):
    """Leave no byte on the file system of `place`."""
    with suppress(OSError), (place / "others.bin").open("wb", buffering=0) as others:
        while True:
            others.write(bytes(512))
    return place / "others.bin"


def test_a_disk_that_gets_full(workshop, mounted):
    shop = workshop("first", mounted("small"))
    others = shop.root / "others.bin"
    shop.plan(FILL.format(str(others)))
    outcome = shop.run()["02_hit"]
    state = outcome.run.status
    assert state == "disk full"
    assert read_runs(shop.run_dir)[1] == outcome.run, "its record found room"
    others.unlink()
    assert shop.report() == (state, outcome.run.reason)
    assert "make room" in outcome.run.reason
    shop.resume()


def test_a_disk_that_is_full_already(workshop, mounted):
    shop = workshop("first", mounted("small"))
    index = Report(shop.run_dir, shop.root / "report").close()
    whole = index.read_bytes()
    others = fill(shop.root)
    said = refused(shop, "run")
    assert "No space left on device; make room" in said
    with pytest.raises(InputError, match="No space left on device; make room"):
        Report(shop.run_dir, shop.root / "report").close()
    assert index.read_bytes() == whole, "the report that was there is whole"
    assert [run.status for run in read_runs(shop.run_dir)] == ["passed"]
    others.unlink()
    shop.resume()


def test_a_folder_that_can_only_be_read(workshop, mounted):
    place = mounted("still")
    shop = workshop("first", place)
    subprocess.run(["mount", "-o", "remount,ro", str(place)], check=True)
    said = refused(shop, "run")
    assert "Read-only file system; choose a folder that can be written" in said
    index = Report(shop.run_dir, shop.script.parent / "report").close()  # which only reads there
    assert "completed" in index.read_text(encoding="utf-8")
    subprocess.run(["mount", "-o", "remount,rw", str(place)], check=True)
    shop.resume()


def test_a_cell_that_writes_where_it_can_only_read(workshop, mounted):
    place = mounted("still")
    subprocess.run(["mount", "-o", "remount,ro", str(place)], check=True)
    shop = workshop("first")
    shop.plan(f"pathlib.Path({str(place)!r}, 'a').touch()")
    shop.run()
    state, sentence = shop.report()
    assert state == "read-only"
    assert "make it writable" in sentence
    shop.resume()


def test_a_renamed_notebook(workshop, tmp_path):
    shop = workshop("both")
    shutil.copytree(shop.notebooks, tmp_path / "notebooks")
    shop.notebooks = tmp_path / "notebooks"
    (shop.notebooks / "02_hit.ipynb").rename(shop.notebooks / "02_new.ipynb")
    names = {"01_done", "02_new"}
    shop.plan("raise ValueError")
    outcomes = shop.run()
    assert {name: outcome.unchanged for name, outcome in outcomes.items()} == {"01_done": True, "02_new": False}
    state, sentence = shop.report("02_hit", notebooks=names)
    assert state == "removed"
    assert "it was renamed or removed after this run; delete its folder" in sentence
    assert shop.report("02_new", notebooks=names)[0] == "stopped"
    index = shop.root / "report" / "index.html"
    assert "<title>FAIL" in index.read_text(encoding="utf-8")
    shop.report(notebooks={"01_done"})
    assert "<title>PASS" in index.read_text(encoding="utf-8"), "what was removed changes no verdict"
    shutil.rmtree(shop.hit)
    shop.report("02_new", notebooks=names)
    assert not (shop.root / "report" / "02_hit.html").exists(), "its page goes with it"


def test_a_stale_page_and_one_that_is_not_ours(workshop):
    shop = workshop("both")
    shop.report()
    report = shop.root / "report"
    shutil.copy(report / "01_done.html", report / "00_gone.html")
    write_text(report / "mine.html", "<p>Mine.</p>")
    (report / "02_hit.html").write_bytes((report / "02_hit.html").read_bytes()[:500])
    assert shop.report() == ("completed", "")
    assert sorted(p.name for p in report.glob("*.html")) == ["01_done.html", "02_hit.html", "index.html", "mine.html"]
