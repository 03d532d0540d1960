from types import SimpleNamespace

import pytest

from kokoro_nb.studies.tvm_schedule.tvm_builds import TvmBuilds


def test_a_rule_is_shown_with_its_share_of_the_arithmetic():
    decisions = tuple(
        SimpleNamespace(kind=kind, rule=rule, calls=calls, flops=flops)
        for kind, rule, calls, flops in (("conv", "blocks", 2, 30), ("conv", "blocks", 1, 20), ("sum", None, 4, 5))
    )
    found = TvmBuilds({"eager": 1.0, "unscheduled": 8.0, "scheduled": 2.0}, "", {}, {}, decisions)
    assert found.gain == 4
    assert [row["run / eager"] for row in found.rows()] == [1, 8, 2]
    rows = {(row["kind"], row["rule"]): row for row in found.rules()}
    assert rows["conv", "blocks"]["functions"] == 2
    assert rows["conv", "blocks"]["share of the arithmetic (%)"] == pytest.approx(80)
    assert rows["sum", "none"]["calls"] == 4


def test_without_tvm_nothing_is_faster():
    found = TvmBuilds({"eager": 1.0}, "TVM is not installed.", {}, {}, ())
    assert found.gain is None
    assert found.rules() == []
