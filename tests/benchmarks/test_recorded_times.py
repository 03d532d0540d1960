"""The times that runs of notebooks and tests left behind."""

import json

import pytest

from kokoro_nb.benchmarks import recorded_times
from kokoro_nb.errors import InputError


def test_notebooks_with_a_profile_are_listed_the_longest_first(tmp_path):
    for name, seconds, profile in (("a", 1.0, {"run": 0.5}), ("b", 2.0, {"export": 1.5}), ("c", 9.0, {})):
        (tmp_path / name).mkdir()
        (tmp_path / name / "run.json").write_text(
            json.dumps({"notebook": name, "seconds": seconds, "profile": profile})
        )
    assert recorded_times.notebook_times(tmp_path) == [
        {"notebook": "b", "seconds": 2.0, "export (s)": 1.5},
        {"notebook": "a", "seconds": 1.0, "run (s)": 0.5},
    ]


def test_test_files_are_listed_the_longest_first(tmp_path):
    files = {"tests/a.py": {"seconds": 1.0, "profile": {"run": 1.0}}, "tests/b.py": {"seconds": 3.0, "profile": {}}}
    (tmp_path / "t.json").write_text(json.dumps(files))
    assert list(recorded_times.test_times(tmp_path / "t.json")) == [
        {"file": "tests/b.py", "seconds": 3.0},
        {"file": "tests/a.py", "seconds": 1.0, "run (s)": 1.0},
    ]


def test_without_a_record_one_sentence_says_what_to_run(tmp_path):
    with pytest.raises(InputError, match="run them first: make report"):
        recorded_times.notebook_times(tmp_path)
    with pytest.raises(InputError, match="run them first: make test"):
        list(recorded_times.test_times(tmp_path / "t.json"))
