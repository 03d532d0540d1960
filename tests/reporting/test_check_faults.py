"""Faults in what a notebook measures: a check that sees them, one that cannot fail, and a control."""

import nbformat
import numpy as np
import pytest

from kokoro_nb.reporting import check_faults as subject
from kokoro_nb.reporting.check_faults import FAULTS, check_faults

CELLS = (
    "frames = 80\nout_dir = None",
    "import numpy as np\nimport kokoro_nb as nb\nfrom kokoro_nb.traces import parity\n"
    "log = nb.Logbook('01_toy', 'none', dict(frames=frames), out_dir)",
    "y = np.linspace(-0.1, 0.1, 16)\nsame, other = parity.compare(y, y.copy()), parity.compare(y, y[::-1].copy())",
    "log.check('parity', 'It is the same.', same.of_peak, 1e-6)",
    "log.check('blind', 'It is at most anything.', same.of_peak, float('inf'))\n"
    "log.claim('blind', 'It is itself.', True)",
    "log.check('control', 'The other way round it is not.', other.of_peak, 1, '>')",
    "log.check('frames', 'The parameters are small.', frames, 8, '==')",
)


@pytest.fixture(scope="module")
def rows(tmp_path_factory):
    folder = tmp_path_factory.mktemp("notebooks")
    cells = [nbformat.v4.new_code_cell(source) for source in CELLS]
    cells[0].metadata["tags"] = ["parameters"]
    nbformat.write(nbformat.v4.new_notebook(cells=cells), folder / "01_toy.ipynb")
    return {(row.kind, row.place): row for row in check_faults("01", folder=folder)}


def test_a_check_that_can_fail_is_turned_red_and_one_that_cannot_is_seen(rows):
    assert all(row.verdict == "pass" for row in rows.values())
    assert {"scaled by 1.02", "one step late", "NaN in one element"} <= set(rows["parity", 1].killed_by)
    assert "nothing differs" not in rows["parity", 1].killed_by
    assert {"NaN in one element", "nothing differs"} < set(rows["control", 1].killed_by)
    assert "eight times as loud" not in rows["control", 1].killed_by
    assert rows["blind", 2].killed_by == rows["frames", 1].killed_by == ()
    assert rows["blind", 1].killed_by == ("NaN in one element",)
    assert rows["parity", 1].stopped_by == ("one element short",), "shapes that differ are refused"
    assert rows["blind", 2].as_dict()["turned red by"] == "no fault"


@pytest.mark.parametrize("fault", list(FAULTS))
def test_each_fault_changes_what_is_measured_and_leaves_its_argument(fault):
    draw = np.random.default_rng(0)
    reference, candidate = draw.standard_normal((2, 3, 8)), draw.standard_normal((2, 3, 8))
    before = candidate.copy()
    changed = FAULTS[fault](reference, candidate)
    assert changed.shape != candidate.shape or not np.array_equal(changed, candidate)
    assert np.array_equal(candidate, before)


def test_without_a_fault_the_wrappers_change_nothing(rows):
    from kokoro_nb.traces.parity import compare

    assert compare(np.ones(3), np.ones(3)).max_error == 0
    with subject.planted("eight times as loud"):
        assert compare(np.ones(3), np.ones(3)).max_error == 7
    assert compare(np.ones(3), np.ones(3)).max_error == 0
