import json

import pytest

from kokoro_nb.backends.taps import TAPS, TapMap, read_taps, write_taps
from kokoro_nb.errors import InputError
from kokoro_nb.traces.operators import Operator

OPERATORS = (
    Operator("encoder:split", "aten.split.Tensor[1]", "encoder", ("input:x", "constant:w"), (1, 2), "float32"),
    Operator(":sum", "aten.sum.default", "", ("encoder:split",), (), "int64"),
)


@pytest.fixture
def taps():
    return TapMap(OPERATORS, {"encoder:split": [3, "split_1", -1]})


def test_what_is_written_is_read(taps, tmp_path):
    write_taps(tmp_path / TAPS, taps)
    assert read_taps(tmp_path) == taps


def test_places_of_what_is_asked_for(taps):
    assert taps.wanted("all") == taps.wanted("encoder:split") == {"encoder:split": [3, "split_1", -1]}
    assert taps.wanted([":sum"]) == {}
    trace = taps.recorder([":sum"], "full").trace("eager", {}, {}, "")
    assert (trace.taps, trace.missing) == ((), (":sum",))
    with pytest.raises(InputError, match="no operator 'sum'"):
        taps.wanted(["sum"])


@pytest.mark.parametrize(
    "damage",
    [
        lambda about: about | {"schema": 0},
        lambda about: about | {"columns": about["columns"][::-1]},
        lambda about: about | {"operators": [about["operators"][0][:-1]]},
        lambda about: about | {"places": ["encoder:split"]},
        lambda about: [about],
    ],
)
def test_a_damaged_list_is_refused(taps, damage, tmp_path):
    write_taps(tmp_path / TAPS, taps)
    about = json.loads((tmp_path / TAPS).read_text())
    (tmp_path / TAPS).write_text(json.dumps(damage(about)))
    with pytest.raises(InputError, match=r"taps\.json is no list of operators .*; export the artefact again"):
        read_taps(tmp_path)


def test_a_list_that_is_cut_off_or_absent_is_refused(taps, tmp_path):
    with pytest.raises(InputError, match=r"taps\.json"):
        read_taps(tmp_path)
    write_taps(tmp_path / TAPS, taps)
    (tmp_path / TAPS).write_text((tmp_path / TAPS).read_text()[:-9])
    with pytest.raises(InputError, match=r"taps\.json"):
        read_taps(tmp_path)
