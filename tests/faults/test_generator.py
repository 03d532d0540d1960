import pytest

from kokoro_nb.errors import InputError
from kokoro_nb.faults import generate, possible
from tests.backends.small import Of
from tests.faults.other_kinds import KINDS


def test_the_same_seed_gives_the_same_faults(exported):
    assert generate(exported.specification, 80, 3, KINDS) == generate(exported.specification, 80, 3, KINDS)
    assert generate(exported.specification, 80, 3, KINDS) != generate(exported.specification, 80, 4, KINDS)


def test_all_are_different_and_every_kind_comes_before_any_comes_twice(exported):
    faults = generate(exported.specification, 80, kinds=KINDS)
    assert len(set(faults)) == 80
    assert {fault.kind for fault in faults[: len(KINDS)]} == set(KINDS)


def test_places_on_constants_alone_are_left_out():
    import torch

    from kokoro_nb.backends.exported import export_program

    exported = export_program(Of(lambda x: x * torch.ones(3).sin()), {"x": torch.ones(3)})
    assert ":sin" in {operator.name for operator in exported.specification.operators}
    assert possible(exported.specification, ["scaled"]) == {"scaled": (":mul",)}


def test_too_many_are_refused(exported):
    with pytest.raises(InputError, match="There are 1 such faults in the program, not 2"):
        generate(exported.specification, 2, kinds=["overflow"])
