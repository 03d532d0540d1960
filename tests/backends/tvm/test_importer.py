import pytest
import torch
import torch.nn.functional as F
from torch import nn

from kokoro_nb.backends.exported import export_program
from kokoro_nb.backends.tvm import Tvm
from kokoro_nb.backends.tvm.importer import decomposed, refuse_random, relax_module

X = {"x": torch.linspace(-1, 1, 24).reshape(2, 12)}


class Of(nn.Module):
    """A function of one tensor as a module."""

    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, x):
        return self.function(x)


RANDOM = {
    "randn_like": torch.randn_like,
    "rand": lambda x: x + torch.rand(2, 12),
    "bernoulli": torch.bernoulli,
    "dropout": lambda x: F.dropout(x, 0.5, training=True),
    "exponential": lambda x: x + torch.zeros_like(x).exponential_(),
}


@pytest.mark.parametrize("name", RANDOM)
def test_what_draws_random_numbers_falls_from_the_rung_lowered(name, tmp_path):
    inputs = {"x": X["x"].abs()}
    failure = Tvm("tvm").export(Of(RANDOM[name]), inputs, tmp_path)
    assert (failure.rung, failure.error) == ("lowered", "NotImplementedError")
    assert "draws random numbers" in failure.message
    assert "explicit_noise" in failure.message


def test_tvm_alone_bakes_one_draw_in(run_bare):
    exported = export_program(Of(torch.randn_like), X)
    (found,) = run_bare(exported, X)
    assert found.std() > 0.5
    with pytest.raises(NotImplementedError, match=r"aten\.randn_like\.default"):
        refuse_random(exported.program)


def test_dropout_at_rest_is_no_random_operator(run):
    class Resting(nn.Module):
        def __init__(self):
            super().__init__()
            self.drop, self.lstm = nn.Dropout(0.5), nn.LSTM(12, 3, num_layers=2, dropout=0.5)

        def forward(self, x):
            return self.lstm(self.drop(x))[0]

    assert run(Resting(), X)["output"].shape == (2, 3)


def test_a_result_of_another_dtype_than_pytorchs_is_refused():
    # TVM's importer asks for float32 wherever it multiplies matrices.
    exported = export_program(Of(lambda x: x @ x.T), {"x": X["x"].double()})
    with pytest.raises(NotImplementedError, match=r"makes \('float32', \(2, 2\)\) of 'mm'.*which is \('float64'"):
        relax_module(exported)


def test_an_error_names_the_operator_and_the_module_it_is_in(tmp_path):
    class Inner(nn.Module):
        def forward(self, x):
            return torch.as_strided(x, (2, 3), (5, 1))

    module = nn.Sequential()
    module.add_module("second", Inner())
    failure = Tvm("tvm").export(module, {"input": X["x"]}, tmp_path)
    assert failure.rung == "lowered"
    assert "at 'as_strided' (as_strided.default) in second" in failure.log


def test_an_observer_sees_every_node_with_its_module_and_its_relax_variable():
    class Two(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second = nn.Linear(12, 4), nn.Linear(4, 2)

        def forward(self, x):
            return self.second(self.first(x).sin())

    seen = []

    def observer(node, value, _builder):
        seen.append((node, value))
        return value

    module = relax_module(export_program(Two(), X), observer=observer)
    places = [list(node.meta["nn_module_stack"].values())[-1][0] for node, _ in seen]
    assert [node.target.__name__ for node, _ in seen if "addmm" in node.name] == ["addmm.default"] * 2
    assert places[-1] == "second"
    assert "first" in places
    assert "" in places  # the sine
    bound = {binding.var.name for block in module["main"].body.blocks for binding in block.bindings}
    assert {value.name for _, value in seen} <= bound


def test_inputs_are_the_parameters_and_weights_are_constants():
    class Shifted(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(12, 4)
            self.register_buffer("shift", torch.ones(4))

        def forward(self, x, unread):
            return self.linear(x) + self.shift

    module = relax_module(export_program(Shifted(), {**X, "unread": torch.ones(3, dtype=torch.int64)}))
    assert [parameter.name for parameter in module["main"].params] == ["x", "unread"]


def test_a_program_is_decomposed_once_for_all_machines_but_for_its_lstms():
    plain = export_program(Of(F.hardtanh), X).program
    assert decomposed(plain, host=True) is decomposed(plain, host=False)
    torch.manual_seed(0)
    recurrent = nn.LSTM(12, 3, batch_first=True)
    program = export_program(Of(lambda x: recurrent(x[None])[0]), X).program
    operators = {host: {str(node.target) for node in decomposed(program, host).graph.nodes} for host in (True, False)}
    assert "aten.lstm.input" in operators[True]
    assert "aten.lstm.input" not in operators[False]
