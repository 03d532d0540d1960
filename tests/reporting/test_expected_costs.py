"""What a notebook took when it last ran to its end."""

from dataclasses import replace

import pytest

from kokoro_nb.reporting.expected_costs import FILE, Cost, expected_cost, note_cost
from kokoro_nb.reporting.runs import RunRecord

RUN = RunRecord("01_a", "passed", "key", {"weights": "mini"}, "2026-11-21T09:44:07+00:00", 3.5, memory=0.9)


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("KOKORO_NB_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def test_the_last_run_to_the_end_counts_for_these_parameters():
    assert expected_cost(RUN) == Cost()
    note_cost(RUN)
    note_cost(replace(RUN, notebook="02_b", seconds=9.0))
    note_cost(replace(RUN, status="interrupted", seconds=0.1))
    assert expected_cost(replace(RUN, status="running", key="another", seconds=None)) == Cost(3.5, 0.9)
    assert expected_cost(replace(RUN, parameters={"weights": "seeded"})) == Cost()
    note_cost(replace(RUN, status="checks failed", seconds=4.5))
    assert expected_cost(RUN) == Cost(4.5, 0.9)


@pytest.mark.parametrize("text", ["", "[]", '{"01_a', "null"])
def test_damaged_notes_are_none_and_are_written_anew(cache, text):
    cache.mkdir()
    (cache / FILE).write_text(text)
    assert expected_cost(RUN) == Cost()
    note_cost(RUN)
    assert expected_cost(RUN) == Cost(3.5, 0.9)


def test_a_cache_that_cannot_be_written_stops_nothing(cache):
    cache.write_text("a file")
    note_cost(RUN)
    assert expected_cost(RUN) == Cost()
