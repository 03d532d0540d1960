"""Messages as the tools print them today; and one export each that really fails."""

import pytest
import torch

from kokoro_nb.backends import backend
from kokoro_nb.backends.base import Failure, quietly
from kokoro_nb.backends.failed_operator import failed_line, failed_operator

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


class Product(torch.nn.Module):
    def forward(self, x):
        if x.sum() > 0:
            return x
        return -x


def test_a_failed_export_is_a_row_with_the_line_of_the_model(tmp_path):
    with quietly():
        found = backend("onnxruntime").export(Product().eval(), {"x": torch.ones(2, 3)}, tmp_path)
    assert isinstance(found, Failure)
    row = found.as_dict()
    assert (row["backend"], row["rung"]) == ("onnxruntime", "exported")
    line = Product.forward.__code__.co_firstlineno + 1
    assert row["line of the model"] == f"test_failed_operator.py:{line}, in forward: if x.sum() > 0:"
    assert "data-dependent" in row["error"]


class Turned(torch.nn.Module):
    def forward(self, x):
        y = x * 2
        return torch.view_as_real(y * torch.exp(y * 1j))


def test_a_failed_export_is_about_the_operator_at_the_line_that_the_error_quotes(tmp_path):
    found = backend("executorch-xnnpack").export(Turned().eval(), {"x": torch.ones(2, 3)}, tmp_path)
    line = Turned.forward.__code__.co_firstlineno + 2
    assert (found.place, found.source) == (":mul#2", f"test_failed_operator.py:{line}")
    assert found.as_dict()["operator"] == ":mul#2"


def test_an_operator_that_the_error_names_in_part_is_not_said_to_be_one_of_several(tmp_path):
    found = backend("onnxruntime").export(Turned().eval(), {"x": torch.ones(2, 3)}, tmp_path)
    assert (found.operator, found.place, found.source) == ("aten.mul.Scalar", "", "")
