"""The mutation tool sees a mutant that no test notices, and kills one that a test does."""

from pathlib import Path

import pytest

from tests import mutants
from tests.mutants import ROOMS, Mutant, _code, places, survives

PARITY = "tests/traces/test_parity.py"
MODULE = "kokoro_nb.traces.parity"


def _mutant(old, new):
    import kokoro_nb.traces.parity as module

    source = Path(module.__file__).read_text(encoding="utf-8")
    assert old in source
    return Mutant(MODULE, (PARITY,), "by hand", source.replace(old, new), 1, new)


@pytest.mark.slow
def test_a_wrong_measure_is_killed_and_an_equal_one_survives():
    assert not survives(_mutant("difference = b - a", "difference = b + a"))
    assert survives(_mutant("difference = b - a", "difference = -(a - b)"))


@pytest.mark.slow
def test_a_module_that_its_package_imports_is_replaced_as_well():
    module, tests = "kokoro_nb.locate.verdicts", ("tests/locate/test_verdicts.py",)
    assert not survives(Mutant(module, tests, "by hand", "raise TypeError", 1, "raise TypeError"))


def test_every_place_is_another_program():
    found = list(places(MODULE, (PARITY,)))
    assert len(set(found)) == len(found) > 40
    (wrong, *_) = [one.mutant() for one in found if one.operator == "core/ReplaceBinaryOperator_Sub_Add"]
    assert wrong.text == "difference = b + a"


def test_every_room_has_modules_and_tests():

    for modules in ROOMS.values():
        for module, tests in modules.items():
            assert Path(__file__).parents[1].joinpath(*module.split(".")).with_suffix(".py").exists()
            assert all((Path(__file__).parents[1] / test.partition("::")[0]).exists() for test in tests)


def test_tests_that_fail_without_a_mutant_notice_nothing(monkeypatch):
    monkeypatch.setattr(mutants, "survives", lambda mutant: mutant.source != _code(MODULE))
    with pytest.raises(SystemExit, match=f"The tests of {MODULE} fail without a mutant: {PARITY}"):
        mutants.patience(MODULE, (PARITY,))
    monkeypatch.setattr(mutants, "survives", lambda mutant: mutant.source == _code(MODULE))
    assert mutants.patience(MODULE, (PARITY,)) == mutants.PATIENCE
