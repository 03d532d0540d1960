import math
from dataclasses import dataclass, replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

from kokoro_nb.backends import BACKENDS
from kokoro_nb.backends.base import Failure
from kokoro_nb.backends.exported import export_program
from kokoro_nb.backends.segment import Cuts
from kokoro_nb.faults import Fault, plant
from kokoro_nb.locate.bisection import bisect
from tests.backends.small import Here, Of, present
from tests.refusals import refused

X = {"x": torch.randn(1, 4, 16, generator=torch.Generator().manual_seed(0))}
EAGER = BACKENDS["eager"]


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.lin = nn.Conv1d(4, 4, 3, padding=1), nn.Linear(4, 4)

    def forward(self, x):
        y = torch.exp(torch.sin(self.conv(x)))
        mean = y.mean(-1, keepdim=True)
        y = (y - mean) * torch.rsqrt(((y - mean) ** 2).mean(-1, keepdim=True) + 1e-5)
        return self.lin(F.leaky_relu(y, 0.1).transpose(1, 2)).transpose(1, 2) + x


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.blocks = nn.Sequential(Block(), Block(), Block())

    def forward(self, x):
        return self.blocks(x)


@pytest.fixture(scope="module")
def exported():
    return export_program(Net(), X)


OPERATORS = [operator.name for operator in export_program(Net(), X).specification.operators]
FAULTS = [f"sign_flip@{name}" for name in OPERATORS[::4]] + [
    "nan_channel@blocks.1.conv:conv1d",
    "wrong_epsilon@blocks.2:add",
    "half_rounding@blocks.0:exp",
    "dropped_bias@blocks.2.lin:linear",
    "sign_flip@blocks.2:transpose#2",  # a view
    f"scaled@{OPERATORS[-1]}",
]


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_found_exactly_and_within_the_bound(fault, exported):
    candidate = plant(exported, Fault.parse(fault))
    search = bisect(candidate, X, EAGER)
    assert (search.verdict, search.operators, search.units) == (
        "fail",
        (fault.partition("@")[2],),
        len(Cuts(candidate)),
    )
    assert search.limit == math.ceil(math.log2(search.units)) + 2
    assert 0 < search.compilations <= search.limit
    assert search.error.ratio > 1
    assert (search.steps[0].first, search.steps[0].stop) == (0, search.units)
    assert search.statement.startswith(f"{search.operators[0]} is wrong, alone and on right inputs, by ")


def test_a_healthy_program_passes_with_one_compilation(exported):
    search = bisect(exported, X, EAGER)
    assert (search.verdict, search.operators) == ("pass", ())
    assert search.compilations == 1
    (output,) = search.outputs
    assert output.of_peak < output.bound_of_peak < 1e-4
    assert f"Every output is within {output.of_peak:.2g} of" in search.statement
    assert f"moves no output by more than {output.bound_of_peak:.2g} of its peak" in search.statement


def test_a_program_with_an_error_that_no_output_shows_is_not_called_right():
    program = export_program(Of(lambda x: F.instance_norm(torch.sin(x) * 3) + x), X)
    search = bisect(plant(program, Fault.parse("scaled@:mul")), X, EAGER)
    (output,) = search.outputs
    assert (search.verdict, output.ratio <= 1) == ("pass", True)
    assert "right on" not in search.statement
    unseen = f"than {output.bound_of_peak:.2g} of its peak, the rounding-error bound, would not show"
    assert unseen in search.statement


def test_a_fault_that_changes_nothing_is_no_fault(exported):
    positive = export_program(Of(lambda x: torch.exp(x).abs().sqrt()), X)
    hidden = plant(positive, Fault("sign_flip", ":exp"))
    assert bisect(hidden, X, EAGER).verdict == "pass"  # the absolute value undoes it
    assert bisect(plant(positive, Fault("sign_flip", ":abs")), X, EAGER).operators == (":abs",)


@dataclass(frozen=True)
class Treacherous(Here):
    """A backend that is right unless it gets all of `together` at once; and does not take `refused`."""

    together: tuple[str, ...] = ()
    refused: str = ""
    name: str = "treacherous"

    def export(self, module, inputs, folder=None):
        own = module.specification.program.graph.nodes
        names = module.specification.results(node for node in own if node.op == "call_function")
        if self.refused in names and len(names) < 20:
            return Failure(self.name, "lowered", "RuntimeError", "no such operator")
        made = EAGER.export(module, inputs)
        wrong = bool(self.together) and set(self.together) <= set(names)
        run = made.program.run
        negating = SimpleNamespace(run=lambda inputs: {name: -value for name, value in run(inputs).items()})
        return replace(made, program=negating) if wrong else made

    def load(self, artifact):
        return artifact.program


def test_a_fault_that_vanishes_alone_is_unknown_and_the_smallest_wrong_part_is_reported(exported):
    backend = Treacherous(together=("blocks.1:exp", "blocks.1:rsqrt"))
    search = bisect(exported, X, backend)
    assert search.verdict == "unknown"
    assert search.limit < search.compilations <= 3 * search.limit
    first, last = OPERATORS.index("blocks.1:exp"), OPERATORS.index("blocks.1:rsqrt")
    assert search.operators == tuple(OPERATORS[first : last + 1])
    assert "is right when it is compiled alone" in search.reason
    assert search.error is None
    assert search.statement.startswith("No operator is seen to be wrong by itself, after ")


def test_a_part_that_cannot_be_compiled_is_unknown(exported):
    candidate = plant(exported, Fault("sign_flip", "blocks.2:exp"))
    found = bisect(candidate, X, Treacherous(refused="blocks.2:sin"))
    assert found.verdict == "unknown"
    assert "no such operator" in found.reason
    assert "blocks.2:exp" in found.operators
    whole = bisect(export_program(Of(torch.exp), X), X, Treacherous(refused=":exp"))
    assert (whole.verdict, whole.compilations) == ("unknown", 1)


def test_a_program_of_one_operator(exported):
    single = export_program(Of(torch.exp), X)
    assert bisect(single, X, EAGER).verdict == "pass"
    found = bisect(plant(single, Fault("sign_flip", ":exp")), X, EAGER)
    assert (found.units, found.operators, found.limit) == (1, (":exp",), 2)
    assert found.compilations <= 2


def test_a_search_that_was_broken_off_goes_on(exported, tmp_path):
    backend = present("onnxruntime")
    candidate = plant(exported, Fault("nan_channel", "blocks.1:sin"))
    first = bisect(candidate, X, backend, tmp_path)
    made = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.onnx")}
    assert first.operators == bisect(candidate, X, backend, tmp_path).operators == ("blocks.1:sin",)
    assert made
    assert made == {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.onnx")}


def test_non_finite_values_that_are_right_are_no_fault():
    exported = export_program(Of(lambda x: torch.log(x * 0).exp() + 1 / (x * 0)), X)
    assert not np.isfinite(EAGER.load(EAGER.export(exported, X)).run(X)["output"]).any()
    assert bisect(exported, X, EAGER).verdict == "pass"
    assert bisect(plant(exported, Fault("sign_flip", ":log")), X, EAGER).operators == (":log",)


def test_what_cannot_be_searched_is_refused(exported):
    refused("Input 'x' is missing", bisect, exported, {}, EAGER)
    absent = replace(BACKENDS["executorch-coreml"])
    if absent.available() is None:
        refused("built without CoreMLBackend", bisect, exported, X, absent)
