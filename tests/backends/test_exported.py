"""What `torch.export` makes of a module: content, copies, names of inputs and outputs."""

from contextlib import contextmanager

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.utils import weight_norm

from kokoro_nb import patch_registry
from kokoro_nb.backends.base import Failure
from kokoro_nb.backends.eager import Eager
from kokoro_nb.backends.exported import Exported, as_exported, export_program, snapshot, state, wrote
from kokoro_nb.backends.signature import call_arguments, checked, example_inputs, named_outputs, specs
from kokoro_nb.errors import InputError
from kokoro_nb.run_apart import run_apart
from tests.backends.small import Of, taking
from tests.refusals import refused

X = torch.linspace(-1, 1, 12).reshape(1, 3, 4)


class Scaled(nn.Module):
    def __init__(self, weight=1.0, buffer=1.0, constant=1.0, attribute=1.0, made=1.0, transposed=False):
        super().__init__()
        self.weight = nn.Parameter(torch.full((4, 4), weight))
        self.register_buffer("buffer", torch.tensor(buffer))
        self.constant = torch.full((3, 4), constant)
        if transposed:
            self.constant = self.constant.T.contiguous().T
        self.attribute, self.made = attribute, made

    def forward(self, x):
        return (x @ self.weight + self.buffer) * self.constant * self.attribute + torch.tensor(self.made)


class Renamed(Scaled):
    output_names = ("audio",)


def _content(module, x=X):
    exported = export_program(module, {"x": x})
    assert isinstance(exported, Exported), str(exported)
    return exported.content


CHANGES = {"weight": 1.0000001, "transposed": True} | dict.fromkeys(("buffer", "constant", "attribute", "made"), 2.0)


@pytest.mark.parametrize("name", CHANGES)
def test_a_module_that_differs_in_anything_has_another_content(name):
    assert _content(Scaled(**{name: CHANGES[name]})) != _content(Scaled())


def test_shape_names_and_branches_are_content():
    def branch(factor):
        return Of(lambda x: torch.cond(x.sum() > 0, lambda x: x * factor, lambda x: x - 1, (x,)))

    assert _content(Scaled(), X[:, :2].expand(1, 2, 4)[:, :1]) != _content(Scaled())
    assert _content(Renamed()) != _content(Scaled())
    assert _content(branch(2.0)) != _content(branch(3.0))


def test_content_is_the_same_in_another_process_and_folder(tmp_path):
    code = (
        "import torch; from kokoro_nb.backends.exported import export_program;"
        "torch.manual_seed(0);"
        "print(export_program(torch.nn.GRU(2, 2), {'input': torch.zeros(2, 1, 2)}).content)"
    )
    result = run_apart(["-c", code], folder=tmp_path)
    torch.manual_seed(0)
    assert export_program(nn.GRU(2, 2), {"input": torch.zeros(2, 1, 2)}).content == result.stdout.strip()


def test_an_exported_program_does_not_follow_the_module():
    module = Scaled()
    exported = export_program(module, {"x": X})
    before = exported.content
    module.weight.data.fill_(7)
    eager = Eager("eager")
    output = eager.load(eager.export(exported, {"x": X})).run({"x": X})["output"]
    assert (output == Scaled()(X).detach().numpy()).all()
    assert export_program(module, {"x": X}).content != before


def test_an_exported_program_is_taken_only_for_its_own_inputs():
    exported = export_program(Scaled(), {"x": X})
    assert as_exported(exported, {"x": X}, "onnxruntime") is exported
    with pytest.raises(InputError, match=r"shape \(1, 3, 5\), but the program was exported for \(1, 3, 4\)"):
        as_exported(exported, {"x": torch.zeros(1, 3, 5)}, "onnxruntime")


def test_a_failure_is_passed_on_under_the_name_of_the_backend():
    def broken(x):
        raise ValueError("no such thing")

    failure = export_program(Of(broken), {"x": X})
    assert failure.source.endswith(', in broken: raise ValueError("no such thing")')
    about = {"log": failure.log, "source": failure.source}
    assert failure == Failure("torch.export", "exported", "ValueError", "no such thing", **about)
    assert as_exported(failure, {"x": X}, "tvm").backend == "tvm"


def test_a_module_that_writes_to_its_input_gives_its_caller_the_output_alone():

    made = export_program(Of(lambda x: x.add_(1) * 2), {"x": X})
    assert made.outputs == ("output",)
    assert list(made.specification.state) == ["x"]
    np.testing.assert_allclose(made.specification.run({"x": X.numpy()})["output"], 2 * (X.numpy() + 1), rtol=1e-6)


class Windowed(nn.Module):
    """Holds a tensor that is neither parameter nor buffer, as Kokoro's TorchSTFT does."""

    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(3, 3)
        self.window = torch.hann_window(3)
        self.ids = torch.arange(3)

    def forward(self, x):
        return self.lstm(x)[0] * self.window + torch.tensor(1 / 3)


def test_a_weight_norm_that_has_run_can_be_copied():
    module = weight_norm(nn.Conv1d(2, 2, 1))
    module(torch.zeros(1, 2, 3))  # leaves a weight with a gradient behind, which copy.deepcopy refuses
    twin = snapshot(module)
    x = torch.randn(1, 2, 3)
    torch.testing.assert_close(twin(x), module(x), rtol=0, atol=0)
    assert all(parameter.requires_grad for parameter in twin.parameters()), "what is exported is the user's module"
    assert all(parameter.requires_grad for parameter in module.parameters())


def test_eager_float64_computes_in_float64_throughout():
    module, x = Windowed(), torch.randn(4, 1, 3)
    backend = Eager("eager-float64", double=True)
    output = backend.load(backend.export(module, {"x": x})).run({"x": x})["output"]
    assert output.dtype == "float64"
    # 1/3 made inside the forward is a float64, or the error would be 1e-8.
    twin = snapshot(module, double=True)
    with torch.no_grad():
        exact = twin.lstm(x.double())[0] * twin.window + torch.tensor(1 / 3, dtype=torch.float64)
    assert abs(output - exact.numpy()).max() < 1e-15
    assert torch.get_default_dtype() == torch.float32


@pytest.mark.parametrize("rebind", [False, True])
def test_state_that_is_written_is_noticed(rebind):
    module = nn.BatchNorm1d(2)
    before = state(module)
    assert not wrote(before, state(module))
    if rebind:
        module.running_mean = module.running_mean + 1
    else:
        module.running_mean.add_(1)
    assert wrote(before, state(module))


def test_eager_runs_under_the_patches_that_were_on_at_its_export(monkeypatch):
    on = ["floor_phase"]

    @contextmanager
    def within(names):
        before, on[:] = list(on), names
        yield
        on[:] = before

    monkeypatch.setattr(patch_registry, "_CATALOGUES", [(lambda: tuple(on), within)])

    x = torch.zeros(1)
    backend = Eager("eager")
    program = backend.load(backend.export(Of(lambda x: x + len(on)), {"x": x}))
    on.clear()
    assert program.run({"x": x})["output"] == 1
    assert on == []


OPTIONAL = taking(lambda x, scale=None, *, shift=None: x if shift is None else x + shift)
VARIADIC, KEYWORDS = taking(lambda *args: args[0] - args[1]), taking(lambda **kwargs: kwargs["a"] - kwargs["b"])


def test_example_inputs_are_copies_in_the_order_of_forward():
    x = torch.zeros(2)
    arrays = example_inputs(OPTIONAL, {"shift": x, "x": x})
    assert list(arrays) == ["x", "shift"]
    arrays["x"] += 1
    assert x.sum() == 0
    assert arrays["shift"].sum() == 0


@pytest.mark.parametrize(("module", "names"), [(OPTIONAL, ("x", "shift")), (VARIADIC, "ab"), (KEYWORDS, "ab")])
def test_any_kind_of_forward_can_be_called(module, names):
    tensors = {name: torch.tensor([float(i)]) for i, name in enumerate(names)}
    arrays = example_inputs(module, tensors)
    args, kwargs = call_arguments(module, {name: torch.from_numpy(array) for name, array in arrays.items()})
    assert module(*args, **kwargs).abs() == 1


def test_what_is_no_module_is_refused():
    refused(r"a str cannot be exported; give a torch\.nn\.Module", example_inputs, "decoder", {})


def test_a_float64_array_stands_for_float32_only_where_it_is_computed_in_float64():
    expected = specs({"x": np.zeros(2, "float32")})
    assert checked({"x": np.zeros(2)}, expected, double=True)["x"].dtype == np.float64
    refused("is float64, but the program was exported for float32", checked, {"x": np.zeros(2)}, expected)


def test_outputs_are_named_by_what_was_returned():
    y = np.zeros(1)
    assert list(named_outputs(y)) == ["output"]
    assert list(named_outputs((y,))) == ["output_0"]
    assert list(named_outputs([y, y])) == ["output_0", "output_1"]
    assert list(named_outputs({"mel": y, "f0": y})) == ["mel", "f0"]
    assert list(named_outputs({"mel": y, "f0": y}, ("a", "b"))) == ["a", "b"]
    assert list(named_outputs(y, ("audio",))) == ["audio"]


TWO = (np.zeros(1), np.zeros(1))
NOT_ONE_EACH = r"returns 2 output\(s\); give one name, each different"


@pytest.mark.parametrize(
    ("value", "declared", "sentence"),
    [
        *((TWO, declared, NOT_ONE_EACH) for declared in (("a",), ("a", "a"), "ab")),
        *((None, None, "a NoneType"), ((np.zeros(1), 3), None, "'output_1' is an int"), ((), None, "returns nothing")),
    ],
)
def test_what_cannot_be_named_is_refused(value, declared, sentence):
    refused(sentence, named_outputs, value, declared)
