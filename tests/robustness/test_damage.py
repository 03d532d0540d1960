"""What befalls files that a run has left: damage is seen, told, never used, and mended by the next run."""

import json
import shutil

import pytest

from tests.robustness.conftest import cut, flip

AGAIN = "the same command runs it again"


def change(path, **values):
    path.write_text(json.dumps({**json.loads(path.read_text()), **values}))


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
    "run record edited": (lambda s: change(s.hit / "run.json", files={"02_hit.ipynb": "0" * 64}), LEFT),
    "findings cut": (lambda s: cut(s.hit / "findings.json"), LEFT),
    "executed notebook cut": (lambda s: cut(s.hit / "02_hit.ipynb"), LEFT),
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
