from dataclasses import replace

import pytest
from nbformat.v4 import new_code_cell, new_notebook

from kokoro_nb import cache_keys
from kokoro_nb.reporting import runs
from kokoro_nb.reporting.runs import RunRecord, content_key, read_run, read_run_or_damage, reusable, write_run
from kokoro_nb.storage import file_digest
from tests.refusals import refused


@pytest.fixture
def passed(tmp_path):
    folder = tmp_path / "01_a"
    (folder / "f").mkdir(parents=True)
    for name in ("01_a.ipynb", "f/x.png"):
        (folder / name).write_text(name)
    files = {name: file_digest(folder / name) for name in ("01_a.ipynb", "f/x.png")}
    run = RunRecord("01_a", "passed", "key", {"seed": 1}, "2026-11-21T09:44:07+00:00", 3.5, files=files)
    write_run(folder, run)
    return run


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "01_a"


def test_a_record_is_read_as_it_was_written_and_reused_while_it_is_whole(folder, passed):
    assert read_run(folder) == read_run_or_damage(folder) == reusable(folder, "key") == passed
    assert read_run(folder / "f") is None
    assert reusable(folder, "other") is None
    (folder / "f" / "x.png").write_text("f/x.pnG")
    assert reusable(folder, "key") is None
    write_run(folder, replace(passed, files={}))
    assert reusable(folder, "key") is None, "without its executed copy"


def test_a_record_that_leads_out_of_its_folder_is_an_input_error_and_told_as_damaged(folder, passed):
    write_run(folder, replace(passed, notebook="../../01_a"))
    refused("no record of a run", read_run, folder)
    found = read_run_or_damage(folder)
    assert (found.notebook, found.status) == ("01_a", "damaged")
    assert reusable(folder, "key") is None


def test_the_key_depends_on_cells_tags_parameters_data_package_and_versions_not_on_outputs(monkeypatch, tmp_path):
    def notebook(source="x = 1", **cell):
        return new_notebook(cells=[new_code_cell(source, **cell)])

    key = content_key(notebook(), {"seed": 1})
    assert content_key(notebook(outputs=[], execution_count=7), {"seed": 1}) == key
    others = {
        content_key(notebook("x = 2"), {"seed": 1}),
        content_key(notebook(metadata={"tags": ["parameters"]}), {"seed": 1}),
        content_key(notebook(), {"seed": 2}),
    }
    with monkeypatch.context() as patch:
        patch.setattr(cache_keys, "code_digest", lambda *rooms: "another")
        others.add(content_key(notebook(), {"seed": 1}))
    with monkeypatch.context() as patch:
        patch.setattr(runs, "versions", lambda: {"torch": "1"})
        others.add(content_key(notebook(), {"seed": 1}))
    (tmp_path / "table.json").write_text("{}")
    with monkeypatch.context() as patch:
        patch.setattr(runs, "DATA", tmp_path)
        others.add(content_key(notebook(), {"seed": 1}))
    assert len(others - {key}) == 6


@pytest.mark.parametrize("named", [".", ["seeded", "model.pth"]])
def test_the_key_follows_the_content_of_a_file_that_a_parameter_names(tmp_path, tmp_path_factory, monkeypatch, named):
    monkeypatch.chdir(tmp_path)
    notebook, checkpoint = new_notebook(cells=[new_code_cell("x = 1")]), tmp_path / "model.pth"
    results = tmp_path_factory.mktemp("results")  # that are written into are no input, and a text is no file
    given = {"weights": named, "folder": str(results), "text": "x" * 9999, "n": 3, "voices": ["a", 2]}
    checkpoint.write_bytes(b"first")
    before = content_key(notebook, given)
    (results / "findings.json").write_text("{}")
    assert content_key(notebook, given) == before
    checkpoint.write_bytes(b"other")
    assert content_key(notebook, given) != before
