"""A first part of the shallow decoder's audio: with fixed norms it joins, with norms as they are it does not."""

import pytest

from kokoro_nb.benchmarks import streaming
from kokoro_nb.benchmarks.interleaved import DISTANCE
from kokoro_nb.benchmarks.streaming import FIRST, FIRST_FIXED, SEAM, WHOLE, WHOLE_FIXED, joins, measure
from kokoro_nb.errors import InputError

LENGTH, JOINED = 0.75, -60.0  # dB of peak


@pytest.fixture(scope="module")
def statistics(shallow):
    """Return those of one sentence."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(streaming, "SENTENCES", 1)
        return streaming.statistics_of(shallow)


@pytest.fixture(scope="module")
def measured(shallow, statistics, tmp_path_factory):
    folder = tmp_path_factory.mktemp("artefacts")
    return measure(shallow, LENGTH, statistics, ["eager", "tvm-metal"], 1, folder=folder)


def test_every_program_is_timed_beside_the_whole(measured):
    rows, skipped = measured
    assert [row.program for row in rows] == [f"eager {one}" for one in (WHOLE, WHOLE_FIXED, FIRST, FIRST_FIXED)]
    assert rows[0].ratio.median == 1
    assert all(row.seconds.median > 0 and row.base == WHOLE for row in rows)
    assert set(skipped) == {f"tvm-metal {one}" for one in (WHOLE, WHOLE_FIXED, FIRST, FIRST_FIXED)}


def test_a_first_part_joins_only_if_norms_are_fixed(measured):
    rows = {row.program.removeprefix("eager "): row for row in measured[0]}
    assert rows[FIRST_FIXED].figures[SEAM] < JOINED < rows[FIRST].figures[SEAM]
    assert SEAM not in rows[WHOLE].figures
    assert rows[WHOLE].figures[DISTANCE] < 0.01 < rows[WHOLE_FIXED].figures[DISTANCE]


def test_all_parts_join_if_enough_is_decoded_on_either_side(shallow, statistics):
    little, enough = joins(shallow, LENGTH, statistics, around=(0.025, 0.25))
    assert enough[SEAM] < JOINED < little[SEAM]
    assert little["frames decoded for each heard"] == pytest.approx((11 + 12 + 11) / 30)
    assert enough["frames decoded for each heard"] == pytest.approx((20 + 30 + 20) / 30)


def test_what_is_too_short_for_a_first_part_is_refused(shallow, statistics):
    with pytest.raises(InputError, match=r"0\.5 s have no first part of 0\.25 s; give more than 0\.5 s"):
        measure(shallow, 0.5, statistics)
