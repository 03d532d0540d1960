import pytest
import torch

from kokoro_nb.backends import backend
from kokoro_nb.backends.exported import content, export_program
from kokoro_nb.faults import Fault, generate, plant, possible
from tests.backends.small import Of, taking
from tests.faults.other_kinds import KINDS
from tests.refusals import refused

# one that changes arguments, one that puts nodes ahead, two that put nodes behind, one that changes a weight
SEVERAL = ("wrong_epsilon@norm:add", "short_reduction@norm:mean", "half_rounding@:sin", "sign_flip@:slice#3")
WEIGHT = "perturbed_weight@square:linear"


def _planted(exported, *texts):
    for text in texts:
        exported = plant(exported, text)
    return exported


def test_the_healthy_program_stays_as_it_is(exported, values, healthy):
    before = content(exported.program), content(exported.specification.program)
    for kind, places in possible(exported.specification, KINDS).items():
        plant(exported, Fault(kind, places[0]))
    assert (content(exported.program), content(exported.specification.program)) == before
    after = values(exported)
    assert all(torch.equal(after[name], healthy[name]) for name in healthy)


def test_tensors_that_are_not_changed_are_shared(exported):
    before, after = exported.specification.program.state_dict, _planted(exported, WEIGHT).program.state_dict
    assert [name for name in before if after[name] is not before[name]] == ["square.weight"]


def test_operators_go_by_the_healthy_names(exported):
    assert _planted(exported, *SEVERAL).specification.operators == exported.specification.operators


def test_names_of_inputs_and_outputs_are_kept():
    named = taking(lambda input, type: (torch.sin(input) * type, input + 1.0))  # as those of many layers of PyTorch
    named.output_names = ("first", "second")
    given = {"input": torch.ones(1, 3), "type": torch.full((1, 3), 2.0)}
    planted = _planted(export_program(named, given), "sign_flip@:sin")
    outputs = backend("eager").load(backend("eager").export(planted, given)).run(given)
    assert list(outputs) == ["first", "second"]
    assert torch.equal(torch.from_numpy(outputs["first"]), -torch.sin(given["input"]) * 2)


def test_a_fault_is_read_as_it_is_written():
    for fault in (Fault("sign_flip", "a.0.b@1:mul#2"), Fault("scaled", ":cat", 7)):
        assert Fault.parse(str(fault)) == fault


@pytest.mark.parametrize(
    ("text", "match"), [("sign_flip", "is no fault"), ("nothing@:cat", "no kind of fault"), ("@:cat", "is no fault")]
)
def test_what_is_no_fault_is_refused(text, match, exported):
    refused(match, Fault.parse, text)
    refused("no operator ':nothing'", plant, exported, Fault("sign_flip", ":nothing"))


def test_the_same_seed_gives_the_same_faults(exported):
    assert generate(exported.specification, 80, 3, KINDS) == generate(exported.specification, 80, 3, KINDS)
    assert generate(exported.specification, 80, 3, KINDS) != generate(exported.specification, 80, 4, KINDS)


def test_all_are_different_and_every_kind_comes_before_any_comes_twice(exported):
    faults = generate(exported.specification, 80, kinds=KINDS)
    assert len(set(faults)) == 80
    assert {fault.kind for fault in faults[: len(KINDS)]} == set(KINDS)


def test_places_on_constants_alone_are_left_out():
    exported = export_program(Of(lambda x: x * torch.ones(3).sin()), {"x": torch.ones(3)})
    assert ":sin" in {operator.name for operator in exported.specification.operators}
    assert possible(exported.specification, ["scaled"]) == {"scaled": (":mul",)}


def test_too_many_are_refused(exported):
    refused("There are 1 such faults in the program, not 2", generate, exported.specification, 2, kinds=["overflow"])
