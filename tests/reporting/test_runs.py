from dataclasses import replace

import pytest
from nbformat.v4 import new_code_cell, new_notebook

from kokoro_nb.errors import InputError
from kokoro_nb.reporting import runs
from kokoro_nb.reporting.runs import Run, content_key, read_run, read_runs, reusable, write_run


@pytest.fixture
def passed(tmp_path):
    run = Run("01_a", "passed", "key", {"seed": 1}, "2026-11-21T09:44:07+00:00", 3.5, "", ("01_a.ipynb", "f/x.png"))
    (tmp_path / "f").mkdir()
    for name in run.files:
        (tmp_path / name).touch()
    write_run(tmp_path, run)
    return run


def test_a_record_is_read_as_it_was_written(tmp_path, passed):
    assert read_run(tmp_path) == passed
    assert read_run(tmp_path / "f") is None


def test_what_passed_unchanged_is_reused(tmp_path, passed):
    assert reusable(tmp_path, "key") == passed


@pytest.mark.parametrize("status", ["running", "failed", "interrupted"])
def test_what_did_not_pass_is_never_reused(tmp_path, passed, status):
    write_run(tmp_path, replace(passed, status=status))
    assert reusable(tmp_path, "key") is None


def test_another_key_or_a_missing_file_is_not_reused(tmp_path, passed):
    assert reusable(tmp_path, "other") is None
    (tmp_path / "f" / "x.png").unlink()
    assert reusable(tmp_path, "key") is None


def test_a_record_without_its_executed_copy_is_not_reused(tmp_path, passed):
    write_run(tmp_path, replace(passed, files=()))
    assert reusable(tmp_path, "key") is None


@pytest.mark.parametrize("text", ["{}", "[]", '{"status": "passed"}'])
def test_a_foreign_record_is_an_input_error(tmp_path, text):
    (tmp_path / "run.json").write_text(text)
    with pytest.raises(InputError, match="no record of a run"):
        read_run(tmp_path)


def test_records_are_listed_by_name(tmp_path, passed):
    for name in ("02_b", "01_a"):
        (tmp_path / "run" / name).mkdir(parents=True)
        write_run(tmp_path / "run" / name, replace(passed, notebook=name))
    assert [run.notebook for run in read_runs(tmp_path / "run")] == ["01_a", "02_b"]
    assert read_runs(tmp_path / "nowhere") == []


def test_the_key_depends_on_cells_tags_parameters_package_and_versions_not_on_outputs(monkeypatch):
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
        patch.setattr(runs, "package_digest", lambda: "another")
        others.add(content_key(notebook(), {"seed": 1}))
    with monkeypatch.context() as patch:
        patch.setattr(runs, "versions", lambda: {"torch": "1"})
        others.add(content_key(notebook(), {"seed": 1}))
    assert len(others - {key}) == 5


def test_the_package_digest_follows_every_source_file(tmp_path, monkeypatch):
    (tmp_path / "models").mkdir()
    source = tmp_path / "models" / "a.py"
    source.write_text("x = 1")
    monkeypatch.setattr(runs, "PACKAGE", tmp_path)
    before = runs.package_digest.__wrapped__()
    source.write_text("x = 2")
    assert runs.package_digest.__wrapped__() != before
