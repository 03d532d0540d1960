"""What befalls files that a run has left: damage is seen, told, never used, and mended by the next run."""

import shutil

import pytest

from kokoro_nb.storage import write_text
from tests.robustness.conftest import cut, flip

AGAIN = "the same command runs it again"


def leave_draft(shop):
    draft = shop.run_dir / ".02_hit.k1ll3d_x" / "02_hit"
    shutil.copytree(shop.hit, draft)
    cut(draft / "run.json")
    shutil.rmtree(shop.hit)


RECORD, LEFT = "Its record, run.json, is damaged", "Its results were changed or damaged since"
# what is done to what 02_hit has left -> words of the report's sentence; of a damage that it does not see, the state
DAMAGES = {
    "run record cut": (lambda s: cut(s.hit / "run.json"), RECORD),
    "run record of another notebook": (lambda s: shutil.copy(s.run_dir / "01_done" / "run.json", s.hit), RECORD),
    "findings cut": (lambda s: cut(s.hit / "findings.json"), LEFT),
    "result of a cell, one byte": (lambda s: flip(s.hit / "result.txt"), "completed"),
    "half-written folder of a killed run": (leave_draft, "not listed"),
    "lock of a dead process": (lambda s: (s.run_dir / ".lock").write_text("4194304"), "nothing"),
}


@pytest.mark.parametrize("name", DAMAGES)
def test_damage_is_reported_and_mended(workshop, name):
    (do, expected), shop = DAMAGES[name], workshop("both")
    do(shop)
    if expected in (RECORD, LEFT):
        state, sentence = shop.report()
        assert state == "damaged"
        assert expected in sentence
        assert AGAIN in sentence
    elif expected != "not listed":
        assert shop.report() == ("completed", "")
    shop.resume(*((("01_done", "02_hit"), ()) if expected == "nothing" else ()))


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
    index = shop.root / "report" / "index.html"
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
    assert {path.name for path in report.glob("*.html")} == {"01_done.html", "02_hit.html", "index.html", "mine.html"}
