from kokoro_nb.findings import Finding
from kokoro_nb.reporting.matrix import ALL, columns, tallies


def finding(verdict, backend=None):
    return Finding("k", verdict, "A claim.", "narrow", backend, reason="because")


FOUND = [
    finding("pass", "tvm"),
    finding("pass"),
    finding("fail", "tvm"),
    finding("skip", "coreml"),
    finding("fail", "tvm"),
]


def test_columns_are_all_and_every_backend_once():
    assert columns(FOUND) == [ALL, "coreml", "tvm"]
    assert columns([]) == [ALL]


def test_each_cell_has_its_tallies_worst_first_and_where_each_begins():
    cells = tallies(FOUND)
    assert {name: [(one.text, one.first) for one in cell] for name, cell in cells.items()} == {
        ALL: [("2 failed", 3), ("1 skipped", 4), ("2 passed", 1)],
        "coreml": [("1 skipped", 4)],
        "tvm": [("2 failed", 3), ("1 passed", 1)],
    }


def test_without_findings_there_are_no_tallies():
    assert tallies([]) == {ALL: []}
