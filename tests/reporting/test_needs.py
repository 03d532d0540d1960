"""What a run needs of memory and disk: one check, before it begins."""

import os
import time
from collections import namedtuple

import psutil
import pytest

from kokoro_nb.__main__ import main
from kokoro_nb.reporting.execute import exports_since, require_memory, run_notebooks, trim_exports
from tests.refusals import refused
from tests.reporting.conftest import save_notebook

Memory = namedtuple("Memory", "available")


@pytest.fixture
def free(monkeypatch):
    """Return a function that sets how much memory is free."""
    return lambda count: monkeypatch.setattr(psutil, "virtual_memory", lambda: Memory(int(count)))


def test_weights_are_known_by_name_or_by_their_file(free, tmp_path):
    (tmp_path / "kokoro.pth").write_bytes(b"x" * 40_000_000)
    free(10 * 327e6)
    there = {name: require_memory("it", name, 4.0) for name in ("seeded", "hexgrad/Kokoro-82M")}
    assert there == {"seeded": 2, "hexgrad/Kokoro-82M": 2}
    assert require_memory("it", str(tmp_path), 20.0) == require_memory("it", str(tmp_path / "kokoro.pth"), 20.0) == 4
    assert require_memory("it", "mini", 1e9) == require_memory("it", "narrow", 1e9) > 1000


@pytest.mark.parametrize(
    ("command", "work", "size"),
    [
        (["diagnose", "--backend", "onnxruntime"], "a diagnosis", "4.3 GB"),
        (["say", "Hi.", "-o", "{}"], "a delivery", "2.9 GB"),
    ],
)
def test_a_command_is_refused_before_it_begins(command, work, size, free, tmp_path, capsys):
    free(1e9)
    made = tmp_path / "made"
    assert main([part.format(made) for part in command] + ["--weights", "seeded"]) == 2
    assert f"With these weights {work} takes up to {size} of memory, and 1.0 GB are free" in capsys.readouterr().err
    assert not made.exists()


def test_notebooks_without_room_are_refused_before_anything_is_written(free, tmp_path, monkeypatch):
    save_notebook(tmp_path / "notebooks", "01_a", parameters='weights = "mini"')
    monkeypatch.setenv("KOKORO_NB_CACHE", str(tmp_path / "cache"))
    free(2e9)
    match = r"a notebook takes up to 6\.5 GB of memory, and 2\.0 GB are free; .* -p weights mini"
    refused(match, run_notebooks, [], {"weights": "seeded"}, 1, tmp_path / "out", folder=tmp_path / "notebooks")
    assert [path.name for path in (tmp_path / "out").iterdir() if not path.name.startswith(".")] == []


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


def test_the_oldest_are_removed_until_the_rest_is_within_the_limit(exports, capsys):
    assert trim_exports(2e-6) == 1000
    assert _left(exports) == ["b", "c"]
    assert trim_exports(0.0) == 1000, "what was made within the hour stays unless all is to go"
    assert _left(exports) == ["c"]
    assert [main(["clean"]), main(["clean"])] == [0, 0]
    assert (exports / "notebook_seconds.json").is_file()
    assert capsys.readouterr().out == "Removed 1 kB of exports.\nNo exports are saved.\n"


@pytest.mark.parametrize(("value", "left"), [("2e-6", ["b", "c"]), ("much", ["a", "b", "c"])])
def test_the_environment_sets_the_limit(exports, monkeypatch, value, left):
    monkeypatch.setenv("KOKORO_NB_CACHE_GB", value)
    trim_exports()
    assert _left(exports) == left


def test_what_a_run_has_made_is_counted(exports):
    assert [exports_since(time.time() - age) for age in (7200 * 24, 60, -60)] == [2, 1, 0]
