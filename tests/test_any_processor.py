"""A limit that holds on one processor alone is seen."""

import pytest

from tests.any_processor import KINDS, TESTS, run

ONE = """
import os
from kokoro_nb.benchmarks.machine import this_machine
def test_it():
    assert os.environ.get("ATEN_CPU_CAPABILITY") != "avx2"
def test_flags():
    assert os.environ.get("ATEN_CPU_CAPABILITY") != "avx2" or not [f for f in this_machine().flags if "512" in f]
"""


@pytest.mark.parametrize(("kind", "passes"), [("this processor", True), ("AVX2", False)])
def test_a_test_that_is_red_on_one_kind_is_reported(kind, passes, tmp_path, monkeypatch):
    monkeypatch.delenv("ATEN_CPU_CAPABILITY", raising=False)
    (tmp_path / "test_one.py").write_text(ONE)
    passed, last = run(kind, ["-c", "/dev/null", "--noconftest", str(tmp_path / "test_one.py")])
    assert passed is passes, last
    assert ("2 passed" if passes else "1 failed, 1 passed") in last, "the flags of AVX-512 are not shown either"


def test_every_kind_is_another_one_and_every_test_exists():
    from tests.any_processor import ROOT

    assert len({str(sorted(given.items())) for given in KINDS.values()}) == len(KINDS)
    assert all((ROOT / test).exists() for test in TESTS)
