"""Other patches on the shallow decoder: each program is compared with the one without a change, and is right."""

import pytest

from kokoro_nb.benchmarks import graph_patches as changes
from kokoro_nb.benchmarks.graph_patches import UNCHANGED
from kokoro_nb.benchmarks.interleaved import DISTANCE, FLOOR
from kokoro_nb.errors import InputError
from kokoro_nb.models.patches import BFLOAT16, EXPORT_PATCHES

LENGTH, ROUNDED = 0.2, f"+{BFLOAT16}"


@pytest.fixture(scope="module")
def measured(shallow, tmp_path_factory):
    asked = ((), ("-two_pass_norm", "+im2col"), (ROUNDED,))
    folder = tmp_path_factory.mktemp("artefacts")
    names = ["tvm-metal", "eager"]
    return changes.measure(shallow, LENGTH, names, 3, changes=asked, with_memory=False, folder=folder)


def test_each_change_is_timed_beside_none(measured):
    rows, _ = measured
    assert [row.program for row in rows] == [f"eager {UNCHANGED}", "eager -two_pass_norm +im2col", f"eager {ROUNDED}"]
    assert (rows[0].ratio.median, rows[0].base) == (1, UNCHANGED)
    assert all(row.ratio.rounds == 3 and row.seconds.median > 0 for row in rows)
    floors = [row.seconds.median / row.figures[FLOOR] for row in rows]
    assert floors == pytest.approx([floors[0]] * 3)  # of the work as exported, whatever the change
    assert floors[0] > 0


def test_no_change_makes_it_wrong(measured):
    *rows, rounded = measured[0]
    assert all(0 < row.error < 1e-4 for row in rows)
    assert all(row.figures[DISTANCE] < 0.01 for row in rows)
    assert len({row.error for row in rows}) == 2  # they are two programs
    assert rounded.error > 1e-4
    assert 0.01 < rounded.figures[DISTANCE] < 1.0


def test_a_backend_without_bfloat16_is_skipped_with_its_reason(shallow, tmp_path):
    pytest.importorskip("onnxruntime")
    asked = ((), (ROUNDED,))
    rows, skipped = changes.measure(
        shallow, LENGTH, ["onnxruntime"], 1, changes=asked, with_memory=False, folder=tmp_path
    )
    assert [row.program for row in rows] == [f"onnxruntime {UNCHANGED}"]
    assert skipped == {f"onnxruntime {ROUNDED}": changes.WITHOUT_BFLOAT16["onnxruntime"]}


def test_what_is_not_here_says_why_once(measured):
    _, skipped = measured
    assert list(skipped) == ["tvm-metal"]


def test_a_change_adds_and_removes_patches():
    assert changes.patches_of(()) == EXPORT_PATCHES
    found = changes.patches_of(("-two_pass_norm", "+im2col"))
    assert set(found) ^ set(EXPORT_PATCHES) == {"two_pass_norm", "im2col"}


@pytest.mark.parametrize("asked", [(), (("+im2col",),)])
def test_without_a_base_there_is_nothing_to_compare_with(shallow, asked):
    with pytest.raises(InputError, match="compared with no change"):
        changes.measure(shallow, LENGTH, ["onnxruntime"], 3, changes=asked)


def test_an_unknown_patch_is_one_sentence(shallow):
    with pytest.raises(InputError, match="There is no patch 'faster'"):
        changes.measure(shallow, LENGTH, ["onnxruntime"], 3, changes=((), ("+faster",)))
