import pytest
import torch

from kokoro_nb.backends import backend
from kokoro_nb.backends.exported import content, export_program
from kokoro_nb.backends.specification import Specification
from kokoro_nb.errors import InputError
from kokoro_nb.faults import Fault, plant, possible
from tests.faults.other_kinds import KINDS

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


def test_two_kinds_have_different_content_and_the_same_has_the_same(exported):
    once, again = _planted(exported, SEVERAL[0]), _planted(exported, SEVERAL[0])
    assert once.content == again.content
    assert len({once.content, exported.content, _planted(exported, SEVERAL[1]).content}) == 3


def test_operators_go_by_the_healthy_names(exported):
    assert _planted(exported, *SEVERAL).specification.operators == exported.specification.operators


def test_rewriting_the_program_once_more_changes_nothing(exported, inputs):
    planted = _planted(exported, *SEVERAL)
    given = planted.specification
    anew = Specification(planted.program.run_decompositions({}), given.inputs, given.outputs, given.named_by)
    one, other = {}, {}
    given.run(inputs, lambda name, result: one.update({name: result.clone()}))
    anew.run(inputs, lambda name, result: other.update({name: result.clone()}))
    assert list(one) == list(other)
    assert all(torch.equal(one[name], other[name]) for name in one)


def test_the_module_computes_what_the_program_does(exported, inputs):
    planted = _planted(exported, *SEVERAL, WEIGHT)
    with torch.no_grad():
        assert torch.equal(planted.module(*inputs.values()), torch.tensor(planted.specification.run(inputs)["output"]))


@pytest.mark.parametrize("name", ["eager", "onnxruntime", "coreml-reference-float32"])
def test_the_false_result_is_at_the_right_name_on_every_backend(name, exported, inputs, values, healthy, tmp_path):
    planted = _planted(exported, *SEVERAL, WEIGHT)
    expected = values(planted)
    program = backend(name).load(backend(name).export(planted, inputs, tmp_path))
    trace = program.trace(inputs, keep="full")
    assert set(trace.missing) <= {":split", ":split#2"}
    for tap in trace.taps:
        # float32 on another runtime: 1e-5 of values near 1, where the smallest fault, the epsilon, changes 1e-2
        torch.testing.assert_close(torch.tensor(tap.value), expected[tap.name], rtol=1e-5, atol=1e-5)
    for text in (*SEVERAL, WEIGHT):
        operator = Fault.parse(text).operator
        assert not torch.allclose(torch.tensor(trace[operator].value), healthy[operator], rtol=1e-5, atol=1e-5)


def test_a_fault_at_an_output_is_seen_there(exported, inputs):
    healthy, planted = exported.specification.run(inputs), plant(exported, Fault("sign_flip", ":div"))
    assert (planted.specification.run(inputs)["output"] == -healthy["output"]).all()
    with torch.no_grad():
        assert (planted.module(*inputs.values()).numpy() == -healthy["output"]).all()


def test_output_names_are_kept(inputs):
    class Named(torch.nn.Module):
        output_names = ("first", "second")

        def forward(self, x):
            return x.sin(), x + 1.0

    x = {"x": inputs["x"]}
    planted = plant(export_program(Named(), x), Fault("sign_flip", ":sin"))
    outputs = backend("eager").load(backend("eager").export(planted, x)).run(x)
    assert list(outputs) == ["first", "second"]
    assert (outputs["first"] == -x["x"].sin().numpy()).all()


class Builtin(torch.nn.Module):
    def forward(self, input, type):  # as many layers of PyTorch call theirs
        return torch.sin(input) * type


def test_inputs_may_be_called_as_builtins_are():
    given = {"input": torch.ones(1, 3), "type": torch.full((1, 3), 2.0)}
    planted = _planted(export_program(Builtin(), given), "sign_flip@:sin")
    made = backend("eager").export(planted, given)
    (found,) = backend("eager").load(made).run(given).values()
    assert torch.equal(torch.from_numpy(found), -torch.sin(given["input"]) * 2)


@pytest.mark.parametrize("kind", KINDS)
def test_a_fault_is_read_as_it_is_written(kind):
    for fault in (Fault(kind, "a.0.b@1:mul#2"), Fault(kind, ":cat", 7)):
        assert Fault.parse(str(fault)) == fault


@pytest.mark.parametrize(
    ("text", "match"), [("sign_flip", "is no fault"), ("nothing@:cat", "no kind of fault"), ("@:cat", "is no fault")]
)
def test_what_is_no_fault_is_refused(text, match):
    with pytest.raises(InputError, match=match):
        Fault.parse(text)


def test_an_unknown_operator_is_refused(exported):
    with pytest.raises(InputError, match="no operator ':nothing'"):
        plant(exported, Fault("sign_flip", ":nothing"))
