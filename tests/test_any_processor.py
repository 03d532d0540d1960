"""A limit that holds on one processor alone is seen."""

import pytest

from tests import any_processor
from tests.any_processor import KINDS, TESTS, main, run

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


def test_the_kinds_that_are_asked_for_are_run_and_a_red_one_is_named(monkeypatch, capsys):
    asked = []
    monkeypatch.setattr(any_processor, "run", lambda kind, tests: asked.append((kind, tests)) or (kind != "AVX2", "1"))
    assert main(["--kind", "AVX2", "--kind", "SSE4.2", "tests/test_one.py"]) == 1
    assert asked == [("AVX2", ["tests/test_one.py"]), ("SSE4.2", ["tests/test_one.py"])]
    assert "red on: AVX2\n" in capsys.readouterr().out
    assert main(["--kind", "this processor"]) == 0
    assert asked[-1] == ("this processor", TESTS)
