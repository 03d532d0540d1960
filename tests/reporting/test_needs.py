"""What a run needs of memory and disk: said, and refused, before it begins."""

import shutil
from collections import namedtuple

import psutil
import pytest
from nbformat.v4 import new_code_cell, new_notebook

from kokoro_nb.__main__ import main
from kokoro_nb.errors import InputError
from kokoro_nb.reporting.execute import run_notebooks
from kokoro_nb.reporting.needs import FULL_BYTES, SMALL_BYTES, needs

Memory = namedtuple("Memory", "available")


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("KOKORO_NB_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def free(monkeypatch):
    """Return a function that sets how much memory is free."""
    return lambda count: monkeypatch.setattr(psutil, "virtual_memory", lambda: Memory(int(count)))


def _needs(weights, count=1):
    return needs({str(number): {"weights": weights} for number in range(count)})


def test_weights_are_known_by_name_or_by_their_file(tmp_path):
    (tmp_path / "config.json").write_bytes(b"{}")
    (tmp_path / "kokoro.pth").write_bytes(b"x" * 40_000_000)
    sizes = {"mini": SMALL_BYTES, "narrow": SMALL_BYTES, "seeded": FULL_BYTES, "hexgrad/Kokoro-82M": FULL_BYTES}
    sizes |= {str(tmp_path): 4e7, str(tmp_path / "kokoro.pth"): 4e7}
    assert {name: _needs(name).weights for name in sizes} == sizes
    assert [name for name in sizes if _needs(name).large] == [*sizes][2:]
    assert needs({"a": {}}).weights == SMALL_BYTES
    assert needs({"a": {"weights": "mini"}, "b": {"weights": "seeded"}}).weights == FULL_BYTES


def test_fewer_run_at_once_where_there_is_no_memory_for_more(free):
    full = _needs("seeded")
    for times, jobs in ((1.1, 1), (1.9, 1), (2.1, 2), (9, 4)):
        free(times * full.memory)
        assert full.jobs(4) == jobs
    free(0.9 * full.memory)
    with pytest.raises(InputError, match=r"takes up to 6\.7 GB of memory, and 6\.0 GB are free; .* -p weights mini"):
        full.jobs(1)
    assert _needs("mini").jobs(4) == 4


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
