import math

import pytest

from kokoro_nb.errors import InputError
from kokoro_nb.studies.localisation import StudyRow, summarise
from kokoro_nb.studies.localisation.study_rows import read_rows, write_rows


def _row(named, operators=(("a",),), effect=1.0, **more):
    faults = tuple(f"scaled@{names[0]}" for names in operators)
    return StudyRow("eager", faults, operators, {"m": named}, effect, 1e-6, **more)


@pytest.mark.parametrize(
    ("named", "operators", "verdict"),
    [
        (("a",), (("a",),), "exact"),
        (("a or a#2",), (("a", "a#2"),), "exact"),  # two results of one operator
        (("a#2",), (("a", "a#2"),), "exact"),
        (("a", "b"), (("a",), ("b",)), "exact"),
        (("a or b",), (("a",),), "among several"),
        (("b",), (("a",),), "another"),
        (("a", "b"), (("a",),), "another"),
        (("b or c",), (("a",),), "another"),
        (("a",), (("a",), ("b",)), "another"),
        ((), (("a",),), "nothing"),
    ],
)
def test_verdict(named, operators, verdict):
    assert _row(named, operators).verdict("m") == verdict


@pytest.mark.parametrize(
    ("effect", "neutral"), [(0.0, True), (1e-6, True), (1.1e-6, False), (math.nan, False), (math.inf, False)]
)
def test_neutral(effect, neutral):
    assert _row(("a",), effect=effect).neutral is neutral


def test_summary():
    rows = [
        StudyRow("eager", (), (), {"m": ()}, 0.0, 1e-6),
        _row(("a",)),
        _row(("a or b",)),
        _row(("b",)),
        _row(()),
        _row((), effect=0.0),
        _row(("a",), effect=0.0),
        StudyRow("eager", ("scaled@a",), (("a",),), failure="It cannot be exported."),
    ]
    counts = {"faults": 4, "named exactly": 1, "among several": 1, "named another": 1, "named nothing": 1}
    apart = {"neutral": 2, "of these named exactly": 1, "healthy blamed": 0, "failed": 1}
    assert summarise(rows) == [{"backend": "eager", "method": "m", **counts, **apart}]


def test_rows_come_back_as_they_were(tmp_path):
    rows = [
        _row(("a",), effect=math.inf, uncaptured=("a",), seconds={"traced": 0.5}),
        _row((), (("a", "b"), ("c",)), failure="No."),
    ]
    write_rows(tmp_path / "rows.jsonl", rows)
    assert read_rows(tmp_path / "rows.jsonl") == rows
    write_rows(tmp_path / "rows.jsonl", [_row((), effect=math.nan)])
    assert math.isnan(read_rows(tmp_path / "rows.jsonl")[0].effect)


def test_no_file_holds_no_rows_and_another_file_is_refused(tmp_path):
    assert read_rows(tmp_path / "rows.jsonl") == []
    (tmp_path / "rows.jsonl").write_text('{"backend": "eager"}\n')
    with pytest.raises(InputError, match="holds no rows of a study"):
        read_rows(tmp_path / "rows.jsonl")
