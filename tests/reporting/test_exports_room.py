"""The room that saved exports take: the oldest go first, and what is young stays."""

import os
import time

import pytest

from kokoro_nb.__main__ import main
from kokoro_nb.reporting.exports_room import exports_bytes, trim_exports


@pytest.fixture
def exports(tmp_path, monkeypatch):
    """Three exports of 1000 bytes, three, two and no hours old, and what is no export."""
    monkeypatch.setenv("KOKORO_NB_CACHE", str(tmp_path))
    for hours, (room, name) in ((3, ("artefacts", "a")), (2, ("delivered", "b")), (0, ("artefacts", "c"))):
        (tmp_path / room / name).mkdir(parents=True)
        (tmp_path / room / name / "model.onnx").write_bytes(b"x" * 1000)
        made = time.time() - 3600 * hours
        os.utime(tmp_path / room / name, (made, made))
    (tmp_path / "notebook_seconds.json").write_text("{}")
    return tmp_path


def _left(folder):
    return sorted(path.parent.name for path in folder.rglob("model.onnx"))


def test_the_oldest_are_removed_until_the_rest_is_within_the_limit(exports):
    assert exports_bytes() == 3000
    assert trim_exports(3e-6) == 0
    assert trim_exports(2e-6) == 1000
    assert _left(exports) == ["b", "c"]


def test_what_was_made_within_the_hour_stays_unless_all_is_to_go(exports):
    assert trim_exports(0.0) == 2000
    assert _left(exports) == ["c"]
    assert trim_exports(0.0, young=0.0) == 1000
    assert exports_bytes() == 0
    assert (exports / "notebook_seconds.json").is_file()


@pytest.mark.parametrize(("value", "left"), [("2e-6", ["b", "c"]), ("much", ["a", "b", "c"]), ("", ["a", "b", "c"])])
def test_the_environment_sets_the_limit(exports, monkeypatch, value, left):
    monkeypatch.setenv("KOKORO_NB_CACHE_GB", value)
    trim_exports()
    assert _left(exports) == left


def test_the_command_removes_them_all_and_says_how_much(exports, capsys):
    assert main(["clean"]) == 0
    assert _left(exports) == []
    assert main(["clean"]) == 0
    assert capsys.readouterr().out == "Removed 3 kB of exports.\nNo exports are saved.\n"
