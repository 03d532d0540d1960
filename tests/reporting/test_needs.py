"""What a run needs of memory and disk: said, and refused, before it begins."""

import shutil
from collections import namedtuple
from dataclasses import replace

import psutil
import pytest
from nbformat.v4 import new_code_cell, new_notebook

from kokoro_nb.__main__ import main
from kokoro_nb.errors import InputError
from kokoro_nb.reporting.execute import _in_turn, _next, run_notebooks
from kokoro_nb.reporting.expected_costs import note_cost
from kokoro_nb.reporting.needs import FULL_BYTES, OWN, SMALL_BYTES, needs
from kokoro_nb.reporting.notebook_process import Job
from kokoro_nb.reporting.runs import RunRecord

Memory = namedtuple("Memory", "available")


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("KOKORO_NB_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def free(monkeypatch):
    """Return a function that sets how much memory is free."""
    return lambda count: monkeypatch.setattr(psutil, "virtual_memory", lambda: Memory(int(count)))


def _run(name, **parameters):
    return RunRecord(name, "passed", "key", parameters, "2026-11-21T09:44:07+00:00", 60.0, memory=3.0, processor=50.0)


def _needs(weights, count=1):
    return needs({str(number): _run(str(number), weights=weights) for number in range(count)})


def test_weights_are_known_by_name_or_by_their_file(tmp_path):
    (tmp_path / "config.json").write_bytes(b"{}")
    (tmp_path / "kokoro.pth").write_bytes(b"x" * 40_000_000)
    sizes = {"mini": SMALL_BYTES, "narrow": SMALL_BYTES, "seeded": FULL_BYTES, "hexgrad/Kokoro-82M": FULL_BYTES}
    sizes |= {str(tmp_path): 4e7, str(tmp_path / "kokoro.pth"): 4e7}
    assert {name: _needs(name).weights for name in sizes} == sizes
    assert [name for name in sizes if _needs(name).large] == [*sizes][2:]
    assert needs({"a": _run("a")}).weights == SMALL_BYTES
    assert needs({"a": _run("a", weights="mini"), "b": _run("b", weights="seeded")}).weights == FULL_BYTES


def test_a_notebook_is_expected_to_hold_what_it_held_last_time_or_what_the_largest_does():
    note_cost(_run("02_b", weights="seeded"))
    runs = {name: _run(name, weights="seeded") for name in ("02_b", "03_c")}
    each = needs(runs).each
    assert each == pytest.approx({"02_b": 3.15e9, "03_c": 1.8e9 + 15 * FULL_BYTES})
    assert needs(runs).memory == each["03_c"]
    beside = needs({"02_b": _run("02_b", weights="seeded"), "03_c": _run("03_c")}).each
    assert beside["03_c"] == 1.8e9 + 15 * SMALL_BYTES, "its own weights are small"


def test_all_at_once_have_the_room_that_is_free_or_allowed(free):
    full = _needs("seeded", 3)
    free(2.1 * full.memory)
    assert full.room() == int(2.1 * full.memory) - OWN
    assert full.room(1.5 * full.memory) == 1.5 * full.memory - OWN
    assert full.room(9 * full.memory) == int(2.1 * full.memory) - OWN
    assert full.room(full.memory + OWN) == full.memory
    with pytest.raises(
        InputError, match=r"One of the notebooks takes 7\.4 GB of memory alone, and all may take 7\.3 GB"
    ):
        full.room(full.memory + 0.9 * OWN)
    free(0.9 * full.memory)
    with pytest.raises(InputError, match=r"takes up to 7\.4 GB of memory, and 6\.0 GB are free; .* -p weights mini"):
        full.room()
    assert _needs("mini").room() is None


def test_beside_others_the_first_begins_that_there_is_memory_for():
    first, second, third = (
        Job(_run(name), "", None, {}, 1, memory=size) for name, size in zip("abc", (6, 3, 2), strict=True)
    )
    assert _next([first, second, third], [], 5) is first, "alone it runs all the same"
    assert _next([first, second, third], [third], 8) is first
    assert _next([first, second, third], [second], 8) is second
    assert _next([first, second, third], [first], 8) is third
    assert _next([first, second], [first], 8) is None
    assert _next([first, second], [first], None) is first
    assert _next([], [first], 8) is None


def test_those_that_hold_most_begin_first_where_two_of_them_do_not_fit_side_by_side():
    jobs = [Job(_run(name), "", None, {}, 1, memory=size) for name, size in zip("abcd", (2, 6, 3, 6), strict=True)]

    def names(at_once, room):
        return "".join(job.run.notebook for job in _in_turn(jobs, at_once, room))

    assert names(2, 12) == names(2, None) == names(1, 8) == "abcd"
    assert names(2, 11) == names(3, 14) == "bdca"


def test_what_says_whether_an_export_works_begins_first_and_then_the_longest():
    about = {"00_a": 9.0, "01_b": 1.0, "04_b": 3.0, "05_c": 8.0, "06_d": 2.0, "07_e": None, "08_f": 5.0}
    jobs = [Job(_run(name), "", None, {}, 1, seconds=seconds) for name, seconds in about.items()]
    order = [job.run.notebook for job in _in_turn(jobs, 2, None)]
    assert order == ["01_b", "05_c", "04_b", "07_e", "00_a", "08_f", "06_d"], "one that was never measured may be long"


def test_how_long_a_notebook_takes_is_known_from_its_last_run():
    note_cost(replace(_run("02_b"), seconds=7.0))
    assert needs({name: _run(name) for name in ("02_b", "03_c")}).seconds == {"02_b": 7.0}


@pytest.mark.parametrize(
    ("command", "work", "size"),
    [
        (["diagnose", "--backend", "onnxruntime"], "a diagnosis", "4.3 GB"),
        (["deliver", "{}"], "a delivery", "2.9 GB"),
        (["say", "Hi.", "-o", "{}"], "a delivery", "2.9 GB"),
    ],
)
def test_a_command_is_refused_before_it_begins(command, work, size, free, tmp_path, capsys):
    free(1e9)
    made = tmp_path / "made"
    assert main([part.format(made) for part in command] + ["--weights", "seeded"]) == 2
    assert f"With these weights {work} takes up to {size} of memory, and 1.0 GB are free" in capsys.readouterr().err
    assert not made.exists()


def test_a_disk_without_room_is_refused_before_anything_is_written(tmp_path, monkeypatch):
    (tmp_path / "notebooks").mkdir()
    notebook = new_notebook(cells=[new_code_cell('weights = "mini"', metadata={"tags": ["parameters"]})])
    import nbformat

    nbformat.write(notebook, tmp_path / "notebooks" / "01_a.ipynb")
    usage = shutil.disk_usage(tmp_path)._replace(free=10**6)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage)
    with pytest.raises(InputError, match=r"1 notebook writes up to .*, and .* has room for 1\.0 MB; make room"):
        run_notebooks([], {"weights": "seeded"}, 1, tmp_path / "out", folder=tmp_path / "notebooks")
    assert [path.name for path in (tmp_path / "out").iterdir() if not path.name.startswith(".")] == []
