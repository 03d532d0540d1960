import pytest

from kokoro_nb.defects import DEFECTS, STATES, DefectMeasurement
from kokoro_nb.errors import InputError
from kokoro_nb.studies.upstream_defects import DefectsToday, defects_today


def test_the_defects_of_a_tool_are_counted_by_state():
    found = DefectsToday(tuple(DefectMeasurement(each, absent="not installed") for each in DEFECTS[:3]))
    counts = found.counts()
    assert [row["tool"] for row in counts] == sorted({each.tool for each in DEFECTS[:3]})
    assert sum(row["SKIP"] for row in counts) == 3
    assert all(row[state] == 0 for row in counts for state in STATES if state != "SKIP")
    assert found.causes()[0]["cause"] == DEFECTS[0].cause


def test_an_unknown_defect_is_refused():
    with pytest.raises(InputError, match="no defect 'flying'"):
        defects_today(["flying"])
