"""Each rung of an export, the error on it, and the operator and the line that the error names."""

import logging
import os
import sys
import warnings
from dataclasses import dataclass, replace

import numpy as np
import pytest
import torch

from kokoro_nb.backends import BACKENDS, backend
from kokoro_nb.backends.base import Artifact, Failure, RungError, on_rung, quietly
from kokoro_nb.backends.eager import Eager
from kokoro_nb.backends.exported import export_program
from kokoro_nb.backends.failed_operator import failed_line, failed_operator
from kokoro_nb.backends.ladder import climb, difference
from tests.backends.small import Here, Of, present
from tests.refusals import refused

X = {"x": torch.linspace(-1, 1, 5)}


DOUBLE = Of(lambda x: x * 2)


@dataclass(frozen=True)
class Drifting(Here):
    """A runtime that goes wrong in a way of our choosing: the known-bad control of the ladder."""

    name: str = "drifting"
    growth: float = 0.0
    fails_at: int = -1
    load_error: bool = False

    def export(self, module, inputs, folder=None):
        return replace(Eager("eager").export(module, inputs), backend=self.name)

    def load(self, artifact):
        if self.load_error:
            raise RuntimeError("error 0x30")
        return _DriftingProgram(artifact.program, self, [])


@dataclass(frozen=True)
class _DriftingProgram:
    program: object
    runtime: Drifting
    calls: list

    def run(self, inputs):
        self.calls.append(None)
        if len(self.calls) - 1 == self.runtime.fails_at:
            raise RuntimeError("error 0x12")
        return {name: value + self.runtime.growth * len(self.calls) for name, value in self.program.run(inputs).items()}


@pytest.mark.parametrize("name", ["eager", "onnxruntime"])
def test_a_climb_that_reaches_the_top(name, tmp_path):
    first = climb(present(name), DOUBLE, X, tmp_path)
    again = climb(BACKENDS[name], export_program(DOUBLE, X), X, tmp_path, calls=1)
    assert first.failure is None
    assert first.outputs["output"].tolist() == first.eager["output"].tolist() == (X["x"] * 2).tolist()
    assert first.drift == 0
    assert len(first.calls) == 3
    assert first.seconds["run"] == first.calls[0]
    assert again.drift is None


def test_drift_between_calls_is_seen(tmp_path):
    # The three calls are off by 1, 2 and 3 steps of 0.25: the last differs from the first by 0.5.
    assert climb(Drifting(growth=0.25), DOUBLE, X, tmp_path).drift == 0.5


def test_a_later_call_that_fails_leaves_the_first_result(tmp_path):
    result = climb(Drifting(fails_at=1), DOUBLE, X, tmp_path)
    assert result.failure == Failure("drifting", "run", "RuntimeError", "error 0x12")
    assert result.outputs is not None
    assert len(result.calls) == 1


def test_a_program_that_cannot_be_loaded_falls_from_the_rung_loaded(tmp_path):
    result = climb(Drifting(load_error=True), DOUBLE, X, tmp_path)
    assert (result.failure.rung, result.failure.message) == ("loaded", "error 0x30")
    assert isinstance(result.artifact, Artifact)
    assert result.outputs is None


def test_an_export_that_fails_keeps_what_eager_gave_and_eager_that_fails_gives_nothing(tmp_path):
    result = climb(Drifting(), Of(lambda x: x @ torch.ones(7)), X, tmp_path)
    assert (result.failure.backend, result.failure.rung, result.eager) == ("drifting", "patched", None)
    result = climb(BACKENDS["onnxruntime"], Of(lambda x: x if x.sum() > 1e-3 else -x), X, tmp_path)
    assert (result.failure.backend, result.failure.rung) == ("onnxruntime", "exported")
    assert result.eager["output"].tolist() == (-X["x"]).tolist()


def test_no_call_is_refused():
    refused("0 calls are too few", climb, Drifting(), DOUBLE, X, calls=0)


@pytest.mark.parametrize(
    ("second", "expected"), [([1.5, np.inf, np.nan], 0.5), ([1.0, -np.inf, np.nan], np.inf), ([1.0, 0, 0], np.nan)]
)
def test_difference_of_outputs(second, expected):
    first = {"y": np.array([1.0, np.inf, np.nan]), "ids": np.array([1])}
    np.testing.assert_equal(difference(first, {**first, "y": np.array(second)}), expected)


def test_what_is_built_for_another_machine_is_not_run(tmp_path, monkeypatch):
    monkeypatch.setattr(Drifting, "executes", lambda self: "needs another machine.")
    taken = climb(Drifting(load_error=True), DOUBLE, X, tmp_path)
    assert (taken.failure, taken.outputs, taken.unexecuted) == (None, None, "needs another machine.")
    assert taken.artifact is not None


def test_a_failure_names_the_root_of_a_chain_without_colours():
    with pytest.raises(RungError) as caught, on_rung("lowered"):
        raise RuntimeError("\x1b[96mStep 3/3\x1b[0m failed.\nDetails") from KeyError("aten.unfold")
    failure = caught.value.failure("onnxruntime")
    assert failure.message == "Step 3/3 failed.\nDetails"
    assert failure.cause == "KeyError: 'aten.unfold'"
    told = "onnxruntime failed when lowered: RuntimeError: Step 3/3 failed (from KeyError: 'aten.unfold')"
    assert str(failure) == told


def test_on_rung_lets_an_interruption_pass():
    with pytest.raises(KeyboardInterrupt), on_rung("run"):
        raise KeyboardInterrupt


def _chatter(error=None):
    print("from print")
    print("from stderr", file=sys.stderr)
    os.write(2, b"from native code\n")
    warnings.warn("from a warning", stacklevel=1)
    logging.getLogger("exporter").warning("from a log")
    if error is not None:
        raise error


def test_quietly_keeps_the_screen_clean(capfd):
    before = logging.root.manager.disable
    with quietly():
        assert logging.root.manager.disable == logging.WARNING
        _chatter()
    assert logging.root.manager.disable == before
    assert capfd.readouterr() == ("", "")
    print("after", file=sys.stderr)
    os.write(2, b"after too\n")
    assert capfd.readouterr().err.splitlines() == ["after", "after too"]


def test_quietly_adds_what_was_printed_to_the_error():
    with pytest.raises(RungError) as caught, on_rung("run"), quietly():
        _chatter(RuntimeError("error 0x12"))
    failure = caught.value.failure("executorch-portable")
    assert failure.message == "error 0x12"
    assert {"from print", "from stderr", "from native code"} <= set(failure.log.splitlines())


FX = """Failed to map a given dim_order: [1, 0] to a torch.memory_format

While executing %aten__to_copy_default : [num_users=1] = call_function[target=executorch.exir.dialects.edge._ops.aten.\
_to_copy.default](args = (%aten_nonzero_default,), kwargs = {dtype: torch.float32})
Original traceback:
File "/home/me/model.py", line 30, in forward
    return self.head(x)
  File "/home/me/net.py", line 15, in head
    return torch.nonzero(x).float()
Use tlparse to see full graph. (https://github.com/pytorch/tlparse)
"""
GUARD = """Could not guard on data-dependent expression Eq(u0, 1) (unhinted: Eq(u0, 1)).

The following call raised this error:
  File "C:\\\\me\\\\net.py", line 7, in forward
    if x.sum() > 0:

"""


@pytest.mark.parametrize(
    ("message", "operator", "line"),
    [
        (FX, "aten._to_copy.default", "net.py:15, in head: return torch.nonzero(x).float()"),
        (GUARD, "", "net.py:7, in forward: if x.sum() > 0:"),
        ("No ONNX function found for <OpOverload(op='prims.prod', overload='default')>.", "prims.prod.default", ""),
        ("Operator torch._ops.aten.cumprod.default is not in Core ATen opset", "aten.cumprod.default", ""),
        ("Operator: <EdgeOpOverload: aten.abs.default>: schema = aten::abs", "aten.abs.default", ""),
        ("Unsupported fx node alias, kind alias", "alias", ""),
        ("ERROR - converting 'fft_rfft' op (located at: 'fft_rfft'):", "fft_rfft", ""),
        ("PyTorch convert function for op 'unfold' not implemented.", "unfold", ""),
        ("Something else altogether.", "", ""),
        ('Traceback:\n  File "/lib/torch/export.py", line 3, in export\n    raise', "", ""),
    ],
)
def test_operator_and_line_of_a_message(message, operator, line):
    assert failed_operator(message) == operator
    assert failed_line(message) == line


class Turned(torch.nn.Module):
    def forward(self, x):
        y = x * 2
        return torch.view_as_real(y * torch.exp(y * 1j))


def test_a_failed_export_is_about_the_operator_at_the_line_that_the_error_quotes(tmp_path):
    found = backend("executorch-xnnpack").export(Turned().eval(), {"x": torch.ones(2, 3)}, tmp_path)
    line = Turned.forward.__code__.co_firstlineno + 2
    assert (found.place, found.source) == (":mul#2", f"test_ladder.py:{line}")
    assert (found.as_dict()["operator"], found.as_dict()["line of the model"]) == (":mul#2", found.source)
    assert replace(found, source="").as_dict()["line of the model"] == found.line != ""


def test_an_operator_that_the_error_names_in_part_is_not_said_to_be_one_of_several(tmp_path):
    found = backend("onnxruntime").export(Turned().eval(), {"x": torch.ones(2, 3)}, tmp_path)
    assert (found.operator, found.place, found.source) == ("aten.mul.Scalar", "", "")
