"""How long a notebook took when it last ran to its end."""

from dataclasses import replace

import pytest

from kokoro_nb.reporting.expected_times import FILE, expected_seconds, note_seconds
from kokoro_nb.reporting.runs import RunRecord

RUN = RunRecord("01_a", "passed", "key", {"weights": "mini"}, "2026-11-21T09:44:07+00:00", 3.5)


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("KOKORO_NB_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def test_the_last_run_to_the_end_counts_for_these_parameters():
    assert expected_seconds(RUN) is None
    note_seconds(RUN)
    note_seconds(replace(RUN, notebook="02_b", seconds=9.0))
    note_seconds(replace(RUN, status="interrupted", seconds=0.1))
    assert expected_seconds(replace(RUN, status="running", key="another", seconds=None)) == 3.5
    assert expected_seconds(replace(RUN, parameters={"weights": "seeded"})) is None
    note_seconds(replace(RUN, status="checks failed", seconds=4.5))
    assert expected_seconds(RUN) == 4.5


@pytest.mark.parametrize("text", ["", "[]", '{"01_a', "null"])
def test_damaged_notes_are_none_and_are_written_anew(cache, text):
    cache.mkdir()
    (cache / FILE).write_text(text)
    assert expected_seconds(RUN) is None
    note_seconds(RUN)
    assert expected_seconds(RUN) == 3.5


def test_a_cache_that_cannot_be_written_stops_nothing(cache):
    cache.write_text("a file")
    note_seconds(RUN)
    assert expected_seconds(RUN) is None
