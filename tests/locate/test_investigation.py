"""A look into a program on any backend, and one run from end to end."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from kokoro_nb.backends import BACKENDS
from kokoro_nb.backends.base import Failure, loadable
from kokoro_nb.backends.exported import export_program
from kokoro_nb.errors import InputError
from kokoro_nb.faults import Fault, generate, plant
from kokoro_nb.inspection import diagnose
from kokoro_nb.locate.bisection import alone_wrong
from kokoro_nb.locate.investigation import BEFORE, EXTRA_OUTPUTS, history, investigate, reference_trace, traced
from kokoro_nb.locate.local_error import LocalError
from tests.backends.small import Here, Of, here, present, results
from tests.corpus.programs import Tiny, tiny_inputs

X = tiny_inputs()


@pytest.fixture(scope="module")
def exported():
    return export_program(Tiny(), X)


@pytest.fixture(scope="module")
def reference(exported):
    return reference_trace(exported, X)


def test_many_faults_are_each_named_exactly(exported, reference):
    neutral = 0
    for fault in generate(exported.specification, 30, seed=1):
        found = investigate(plant(exported, fault), X, "eager", reference)
        if not found.faults:  # it changes nothing: then nothing must have changed
            neutral += 1
            np.testing.assert_array_equal(found.candidate.outputs["output"], reference.outputs["output"])
            continue
        kin = fault.operator.partition("#")[0]  # the results of one operator can only be exchanged together
        assert {one.tap.name.partition("#")[0] for one in found.faults} == {kin}, str(fault)
    assert neutral <= 3


def test_what_is_not_finite_comes_first(exported, reference):
    planted = plant(plant(exported, Fault("scaled", "conv:conv1d")), Fault("nan_channel", "square:linear"))
    found = investigate(planted, X, "eager", reference)
    assert (found.faults[0].tap.name, found.culprit.tap.name) == ("conv:conv1d", "square:linear")


def test_an_operator_that_is_compiled_alone_is_judged_in_the_dtype_of_the_runtime():
    class Crossed(torch.nn.Module):
        """Attention of one signal to another, of which one position may see nothing."""

        def __init__(self):
            super().__init__()
            self.q, self.kv = torch.nn.Linear(12, 12), torch.nn.Linear(8, 24)

        def forward(self, x, memory, mask):
            q = self.q(x).view(1, 6, 2, 6).transpose(1, 2)
            k, v = (one.view(1, 9, 2, 6).transpose(1, 2) for one in self.kv(memory).chunk(2, -1))
            return torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=mask).sum(1)

    torch.manual_seed(0)
    mask = torch.ones(1, 1, 6, 9, dtype=torch.bool)
    mask[..., 4, :] = False
    inputs = {"x": torch.randn(1, 6, 12), "memory": torch.randn(1, 9, 8), "mask": mask}
    found = diagnose(Crossed().eval(), inputs, "coreml-reference")
    assert found.first.tap.name == ":scaled_dot_product_attention"


def test_a_view_at_another_length_than_the_example_s_has_its_shape(tmp_path):
    """ExecuTorch shows the memory of a view, and the example's shape says nothing of another length."""

    example, longer = ({"x": torch.randn(1, 4, length)} for length in (6, 11))
    shapes = {"x": {2: torch.export.Dim("length", min=2, max=32)}}
    about = {"folder": tmp_path, "dynamic_shapes": shapes, "at": longer}
    interleaved = Of(lambda x: F.conv1d(torch.repeat_interleave(torch.tanh(x), 3, 2), torch.ones(1, 4, 2)))
    found = diagnose(interleaved, example, here("executorch-portable"), **about)
    assert found.verdict == "pass"
    assert found.investigation.candidate[":repeat_interleave"].value.shape == (1, 4, 33)


def test_what_is_compiled_alone_is_judged_with_its_arguments():
    """Rules that ask for the index of a select found nothing where several operators had been narrowed to one."""

    x = {"x": torch.randn(1, 5, 3, generator=torch.Generator().manual_seed(0))}
    reference = reference_trace(export_program(Of(lambda x: torch.tanh(x)[..., -1]), x), x)
    right, rows = reference.values[":select"], reference.values[":tanh"].reshape(-1)
    given = rows[[0, *range(2, 14, 3)]].reshape(1, 5)  # of each row what stands before it
    error = LocalError(reference[":select"].operator, 1.0, 1.0, np.inf, given != right, given, right, ())
    found = alone_wrong(error, reference, "eager")
    assert found.mechanism.statement == "an index counted from the end read before the tensor"


ONE = {"x": torch.randn(1, 3, 8, generator=torch.Generator().manual_seed(0))}


def _bent(x, weight):
    y = torch.sin(F.conv1d(x, weight))
    return torch.where(y > 0, torch.exp(y), y)


@pytest.fixture(scope="module")
def net():
    return export_program(Of(_bent, torch.randn(3, 3, 3, generator=torch.Generator().manual_seed(1))), ONE)


COMPILED = pytest.param("aot-inductor", True, marks=pytest.mark.slow)  # compiled for 20 s


@pytest.mark.parametrize(("name", "recompiled"), [("eager", False), COMPILED, ("onnxruntime", False)])
def test_every_backend_is_looked_into(name, recompiled, net, tmp_path):
    expected = results(net, ONE)
    trace = traced(present(name), net, ONE, "all", "full", tmp_path)
    assert (trace.how == EXTRA_OUTPUTS) == recompiled
    assert list(trace.values) == list(expected)
    assert list(trace.outputs) == ["output"]
    for operator, value in trace.values.items():
        np.testing.assert_allclose(value, expected[operator], atol=1e-6)


class Picky(Here):
    """Shows none of its operators, and refuses a program of whose outputs `takes` says so."""

    def __init__(self, takes):
        self.name, self.takes = "picky", takes

    def export(self, module, inputs, folder=None):
        outputs = [node.meta["val"] for node in module.program.graph.output_node().args[0]]
        refused = Failure(self.name, "lowered", "TypeError", "such an output cannot go out")
        return BACKENDS["eager"].export(module, inputs, folder) if self.takes(outputs) else refused

    def load(self, artifact):
        program = loadable(artifact, "eager").program

        def trace(inputs, taps="all", keep="stats"):
            seen = program.trace(inputs)
            return replace(seen, taps=(), missing=tuple(tap.name for tap in seen.taps))

        return SimpleNamespace(run=program.run, trace=trace)


FLOATS_ONLY = Picky(lambda outputs: all(one.is_floating_point() for one in outputs))


def test_what_is_asked_for_and_nothing_else(net):
    trace = traced(FLOATS_ONLY, net, ONE, [":exp"], "stats", None)
    assert [tap.name for tap in trace.taps] == [":exp"]
    assert (trace.missing, trace.values) == ((), {})


def test_where_a_backend_takes_no_truth_values_the_floats_are_captured(net):
    trace = traced(FLOATS_ONLY, net, ONE, "all", "stats", None)
    assert trace.missing == (":gt",)
    assert ":exp" in [tap.name for tap in trace.taps]


def test_a_program_that_cannot_be_exported_is_refused(net):
    with pytest.raises(InputError, match=r"nothing to load, for .*cannot go out"):
        traced(Picky(lambda outputs: False), net, ONE, "all", "stats", None)


def test_a_runtime_that_takes_no_further_outputs_is_searched_by_bisection():
    healthy = export_program(Of(lambda x: (x.sin() * 2).exp()), ONE)
    found = diagnose(
        plant(healthy, Fault("sign_flip", ":mul")), ONE, Picky(lambda outputs: len(outputs) == 1), reference=healthy
    )
    assert (found.method, found.verdict, found.first.tap.name) == ("bisection", "fail", ":mul")


INPUTS = {"x": np.array([1.0, 2.0], np.float32), "index": np.array([0], np.int64)}


class Program:
    """Adds up; what it does with its memory is up to the test."""

    def __init__(self, keep):
        self.keep, self.memory, self.seen = keep, 0.0, []

    def run(self, inputs):
        self.seen.append({name: value.copy() for name, value in inputs.items()})
        answer = inputs["x"] + self.memory
        self.memory = self.keep(self.memory, inputs["x"])
        return {"y": answer}


def test_a_program_without_memory_gives_the_same_after_anything():
    program = Program(lambda memory, x: 0.0)
    found = history(program, INPUTS)
    assert not found.depends
    assert list(found.changes) == list(BEFORE)
    assert "same, bit for bit" in found.statement
    assert len(program.seen) == 1 + 2 + 3 * 2
    assert all(np.array_equal(seen["index"], INPUTS["index"]) for seen in program.seen)


def test_memory_that_adds_up_is_seen_on_the_second_call():
    found = history(Program(lambda memory, x: memory + 1.0), INPUTS)
    assert found.changes["itself"] == 1.0
    assert found.depends


def test_poison_that_stays_is_seen_after_nan_alone():
    found = history(Program(lambda memory, x: memory + float(0 * x[0])), INPUTS)
    assert found.changes["itself"] == found.changes["itself twice"] == 0
    assert np.isnan(found.changes["NaN in every float"])
    assert "depends on history" in found.statement
