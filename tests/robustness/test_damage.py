"""What befalls files that a run has left: damage is seen, told, never used, and mended by the next run."""

import json
import shutil
from dataclasses import dataclass, field

import pytest

from kokoro_nb.cache_keys import code_digest
from kokoro_nb.reporting.sweep.cluster import CellTask, run_cell
from kokoro_nb.reporting.sweep.grid import expand, read_spec
from kokoro_nb.reporting.sweep.sweep_run import run_sweep

AGAIN = "the same command runs it again"


def cut(path):
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def flip(path):
    raw = bytearray(path.read_bytes())
    raw[len(raw) // 2] ^= 1
    path.write_bytes(raw)


def change(path, **values):
    path.write_text(json.dumps({**json.loads(path.read_text()), **values}))


def leave_draft(shop):
    draft = shop.run_dir / ".02_hit.k1ll3d_x" / "02_hit"
    shutil.copytree(shop.hit, draft)
    cut(draft / "run.json")
    shutil.rmtree(shop.hit)


@dataclass(frozen=True)
class Damage:
    """What is done to what 02_hit has left, with what is expected of the report and of the next run."""

    injected: str
    do: object
    state: str = "damaged"
    words: str = AGAIN
    kept: tuple = ("01_done",)
    done: tuple = field(default=("02_hit",))


RECORD, LEFT = "Its record, run.json, is damaged", "Its results were changed or damaged since"
BOTH = ("01_done", "02_hit")
DAMAGES = {
    "run record cut": Damage("`run.json` cut in half", lambda s: cut(s.hit / "run.json"), words=RECORD),
    "run record empty": Damage("`run.json` of 0 bytes", lambda s: (s.hit / "run.json").write_text(""), words=RECORD),
    "run record of another schema": Damage(
        "a key that is none", lambda s: change(s.hit / "run.json", schema=9), words=RECORD
    ),
    "run record that leads out of its folder": Damage(
        "its notebook is `../../x`", lambda s: change(s.hit / "run.json", notebook="../../x"), words=RECORD
    ),
    "run record of another notebook": Damage(
        "`run.json` of 01_done in 02_hit",
        lambda s: shutil.copy(s.run_dir / "01_done" / "run.json", s.hit),
        words=RECORD,
    ),
    "run record that was edited": Damage(
        "a checksum in it replaced",
        lambda s: change(s.hit / "run.json", files={"02_hit.ipynb": "0" * 64}),
        words=LEFT,
    ),
    "findings cut": Damage("`findings.json` cut in half", lambda s: cut(s.hit / "findings.json"), words=LEFT),
    "findings gone": Damage("`findings.json` removed", lambda s: (s.hit / "findings.json").unlink(), words=LEFT),
    "executed notebook cut": Damage("it is cut in half", lambda s: cut(s.hit / "02_hit.ipynb"), words=LEFT),
    "executed notebook, one byte": Damage("one bit flipped", lambda s: flip(s.hit / "02_hit.ipynb"), words=LEFT),
    "result of a cell, one byte": Damage(
        "one bit of `result.txt` flipped", lambda s: flip(s.hit / "result.txt"), "completed", ""
    ),
    "half-written folder of a killed run": Damage(
        "`.02_hit.k1ll3d_x` beside, 02_hit itself not there", leave_draft, "", ""
    ),
    "lock of a dead process": Damage(
        "`.lock` names a process that is gone",
        lambda s: (s.run_dir / ".lock").write_text("4194304"),
        *("completed", "", BOTH, ()),
    ),
}


@pytest.mark.parametrize("name", DAMAGES)
def test_damage_is_reported_and_mended(workshop, observe, name):
    fault, shop = DAMAGES[name], workshop("both")
    fault.do(shop)
    state, sentence = shop.report() if fault.state else ("not listed", "")
    assert state == (fault.state or "not listed")
    assert fault.words in sentence
    observe(name, fault.injected, state, sentence, shop.resume(fault.kept, fault.done))


def test_a_flipped_byte_anywhere_in_a_record_is_never_a_pass_of_something_else(workshop):
    shop = workshop("both")
    record = shop.hit / "run.json"
    whole = record.read_bytes()
    unnoticed = 0
    for at in range(len(whole)):
        record.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
        state, _ = _read(shop)
        unnoticed += state == "passed"
    assert unnoticed < len(whole) / 4, "white space, and the texts that nothing depends on"


def _read(shop):
    from kokoro_nb.reporting.runs import changed_files, read_run_or_damage

    run = read_run_or_damage(shop.hit)
    spoilt = changed_files(shop.hit, run, run.files)
    return ("damaged" if spoilt else run.status), run


@pytest.fixture(scope="module")
def swept(project, tmp_path_factory):
    """A sweep of one cell, executed without a cluster."""
    root = tmp_path_factory.mktemp("swept")
    (root / "one.toml").write_text('notebook = "02"\n')
    spec = read_spec(root / "one.toml")
    (cell,) = expand(spec, project / "notebooks")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("KOKORO_NB_TALLY", str(root / "tally.txt"))
        patch.setenv("KOKORO_NB_FAULT", str(root / "none.py"))
        run_cell(CellTask(cell, root / "out" / "cells" / cell.name, code_digest()))
    return root, spec, cell


SWEPT = {
    "sweep's table cut": ("`results.parquet` of 4 bytes", "../../results.parquet", "PAR1"),
    "sweep's folder of a killed worker": ("a half-written `.cell.k1ll3d`", "../.cell.k1ll3d/run.json", "{"),
}


@pytest.mark.parametrize("name", SWEPT)
def test_damage_to_a_sweep(swept, project, observe, tmp_path, name):
    from pyarrow import parquet

    root, spec, cell = swept
    injected, file, text = SWEPT[name]
    shutil.copytree(root / "out", tmp_path / "out")
    path = tmp_path / "out" / "cells" / cell.name / file
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    (result,) = run_sweep(spec, tmp_path / "out", folder=project / "notebooks")
    assert (result.status, result.unchanged) == ("passed", True)
    assert parquet.read_table(tmp_path / "out" / "results.parquet").num_rows == 1
    assert [one.name for one in (tmp_path / "out" / "cells").iterdir()] == [cell.name]
    observe(name, injected, result.status, "", "cell kept; table and report written anew")
