"""What is said of each case of the corpus is what was said when it was frozen, and what was frozen is right."""

import json
import re

import pytest

from tests.corpus.file_faults import ALONE, FORMS, IN_FILE
from tests.corpus.verdicts import CASES, FROZEN, verdict
from tests.corpus.wrong_exports import SICK

ROWS = json.loads(FROZEN.read_text(encoding="utf-8"))
OPERATORS = {
    "constant": "linear|matmul|gemm|addmm|fully",
    "one_channel": "linear|matmul|gemm|addmm|fully|permute",
    "attribute": "leaky",
    "epsilon": "norm",
    "axis": "softmax",
    "overflowing_cast": "cast|to|copy",
    "infinity_less_infinity": "mul",
    "masked": "mul",
}
"""Kind of fault -> what the operator may be called that has it, in any format."""


@pytest.mark.parametrize("name", CASES)
def test_what_is_said_is_what_was_said(name):
    assert verdict(name) == ROWS[name]


def _rows(beginning):
    found = {name.removeprefix(beginning): row for name, row in ROWS.items() if name.startswith(beginning)}
    assert found
    return found


def test_every_case_has_a_row_and_no_other():
    assert sorted(ROWS) == sorted(CASES)
    assert len(ROWS) >= 150


def test_a_planted_fault_is_named_at_its_place():
    for row in _rows("planted ").values():
        assert row["at"] in row["first"].split(" or ")


def test_a_wrong_export_has_its_culprit_and_its_mechanism():
    for name, row in _rows("sick: ").items():
        assert row["verdict"] == "fail"
        assert row["first"].split(" or ")[0] in SICK[name].culprits
        assert row["mechanism"] == SICK[name].mechanism


def test_a_healthy_export_or_file_is_not_accused():
    assert {row["verdict"] for row in _rows("healthy: ").values()} == {"pass"}
    for row in _rows("form ").values():
        assert (row["verdict"], row["judged"]) == ("pass", row["nodes"])


def test_who_is_to_blame_is_blamed():
    for row in _rows("blame: ").values():
        assert f"{row['blame']} {row['first']}".strip() == row["right"]


@pytest.mark.parametrize("form", FORMS)
def test_a_fault_in_a_file_is_named(form):
    for kind in FORMS[form]:
        row = ROWS[f"{kind} in {form}"]
        assert row["mechanism"] == ("nonfinite" if kind in ALONE else "structure")
        assert re.search(OPERATORS[kind], row["operator"].lower()), row


def test_faults_of_integers_are_named_where_they_are():
    rows = _rows("integers: ")
    assert set(rows) == set(IN_FILE)
    assert all(row.get("cut") or row["mechanism"] == "structure" for row in rows.values())


def test_a_damaged_file_ends_in_a_sentence_or_a_report():
    rows = _rows("damaged: ")
    assert {row["verdict"] for row in rows.values()} <= {"sentence", "raised", "pass", "fail", "unknown"}
    raised = {row["said"] for row in rows.values() if row["verdict"] == "raised"}
    assert raised == {"MemoryError"}  # of which the command makes sentences: test_inspect_process
