import pytest
import torch
from torch import nn

from kokoro_nb.backends.base import quietly
from kokoro_nb.backends.translations import translations_read_once

pytest.importorskip("onnxscript")
from torch.onnx._internal.exporter import _registration as registration


def _exported():
    torch.manual_seed(0)
    module = nn.Sequential(nn.Conv1d(2, 2, 3), nn.InstanceNorm1d(2)).eval()
    with quietly():
        program = torch.onnx.export(module, (torch.ones(1, 2, 9),), dynamo=True, opset_version=18, verbose=False)
    return program.model_proto.SerializeToString(deterministic=True)


def test_the_file_is_the_same_to_the_byte_and_the_source_is_read_once(monkeypatch):
    plain = _exported()
    read = []
    translation = registration.OnnxDecompMeta.__post_init__
    monkeypatch.setattr(registration.OnnxDecompMeta, "__post_init__", lambda self: read.append(translation(self)))
    with translations_read_once():
        assert _exported() == plain
        read.clear()
        assert _exported() == plain
    assert not read
    assert _exported() == plain
    assert read


def test_what_one_export_adds_is_not_in_the_next():
    target = torch.ops.aten.sin.default
    with translations_read_once():
        first = registration.ONNXRegistry.from_torchlib(18)
        known = first.get_decomps(target)
        first.register_op(target, lambda x: x)
        assert len(first.get_decomps(target)) == len(known) + 1
        assert registration.ONNXRegistry.from_torchlib(18).get_decomps(target) == known
        assert registration.ONNXRegistry.from_torchlib(20).opset_version == 20
