import subprocess
import sys

import numpy as np
import pytest
import torch
from torch import nn

from kokoro_nb.backends.base import Failure
from kokoro_nb.backends.eager import Eager
from kokoro_nb.backends.exported import Exported, as_exported, export_program
from kokoro_nb.errors import InputError
from tests.backends.small import Of

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
    result = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True)
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
    assert failure == Failure("torch.export", "exported", "ValueError", "no such thing", log=failure.log)
    assert as_exported(failure, {"x": X}, "tvm").backend == "tvm"


def test_a_module_that_writes_to_its_input_gives_its_caller_the_output_alone():

    made = export_program(Of(lambda x: x.add_(1) * 2), {"x": X})
    assert made.outputs == ("output",)
    assert list(made.specification.state) == ["x"]
    np.testing.assert_allclose(made.specification.run({"x": X.numpy()})["output"], 2 * (X.numpy() + 1), rtol=1e-6)


def test_a_module_may_write_to_what_it_made():
    def fill(x):
        y = torch.zeros(4)
        y[:2] = x[0, 0, :2]
        return y

    assert isinstance(export_program(Of(fill), {"x": X}), Exported)
