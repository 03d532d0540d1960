"""What a delegate's payload says, computed here, against what XNNPACK itself gives; what cannot be read is named."""

import functools

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import kokoro_nb as nb
from kokoro_nb.inspection.formats import xnnpack_graph
from kokoro_nb.inspection.formats.pte_file import PteFile
from kokoro_nb.inspection.formats.xnnpack_graph import KINDS, XnnDelegate
from tests.corpus.forms import xnnpack_pte
from tests.refusals import refused

pytest.importorskip("executorch")


class Many(nn.Module):
    """Most of what XNNPACK takes."""

    def __init__(self):
        super().__init__()
        self.conv, self.deep = nn.Conv2d(4, 8, 3, padding=1), nn.Conv2d(8, 8, 3, padding=1, groups=8)
        self.up = nn.ConvTranspose2d(8, 4, 4, 2, 1)
        self.grouped = nn.ConvTranspose2d(8, 4, 4, 2, 1, groups=2)
        self.linear, self.slope = nn.Linear(16, 8), nn.PReLU(4)

    def forward(self, x):
        y = F.relu(self.deep(self.conv(x)))
        up = self.slope(self.up(y)) + F.elu(self.grouped(y))
        small = F.max_pool2d(up, 2) - F.avg_pool2d(up, 2)
        flat = self.linear(F.pad(small, (4, 4), value=0.5)[..., :16])
        smooth = torch.cat([torch.tanh(flat), torch.sigmoid(flat), F.gelu(flat)], -1)
        squares = torch.sqrt(torch.square(smooth) + 1.0) / torch.exp(torch.abs(smooth))
        near = torch.rsqrt(squares + 1.0) + torch.log(squares + 2.0)
        waves = torch.sin(near) * torch.cos(near)
        steps = torch.maximum(torch.floor(4 * waves), torch.minimum(torch.ceil(4 * waves), -waves))
        product = torch.bmm(F.softmax(steps[0], -1), waves[0].transpose(1, 2))
        return F.hardswish(product) + F.leaky_relu(product, 0.2).clamp(-0.5, 0.5)


@functools.cache
def _program():
    torch.manual_seed(0)
    return Many().eval().requires_grad_(False), {"x": torch.randn(1, 4, 8, 8)}


@pytest.fixture(scope="module")
def many(tmp_path_factory):
    return xnnpack_pte(*_program(), tmp_path_factory.mktemp("xnnpack") / "many.pte")


def test_what_the_payload_means_is_what_xnnpack_gives(many):
    report = nb.inspect(many, against=_program())
    assert report.verdict == "pass"
    assert {one.operator for one in report.judgements} >= {"XnnpackBackend"}
    assert max(one.worst.ratio for one in report.judgements) < 1
    delegates = [step.operator for step in PteFile.read(many).steps if step.is_delegate]
    assert len({node.kind for one in delegates for node in one.nodes}) >= 25
    assert report.outputs[0].snr > 100


@pytest.mark.parametrize("kind", ["XNNDepthwiseConv2d", "XNNConvTranspose2d", "XNNPReLU", "XNNSoftmax", "XNNExp"])
def test_a_wrong_meaning_of_one_node_would_be_seen(many, kind, monkeypatch):
    real = KINDS[kind]
    monkeypatch.setitem(KINDS, kind, lambda table, given: real(table, given) * 1.001)
    assert nb.inspect(many).verdict == "fail"


def test_what_is_not_known_inside_leaves_the_delegate_unjudged_with_its_reason(many, monkeypatch):
    monkeypatch.setattr(xnnpack_graph, "KINDS", {key: one for key, one in KINDS.items() if key != "XNNPReLU"})
    report = nb.inspect(many)
    assert report.verdict == "unknown"
    (reason,) = {one.reason for one in report.unjudged}
    assert reason.endswith("shows its results alone; XNNPReLU is not known here")


def _payload(scale):
    """Write a payload as ExecuTorch does: a value of integers with a scale, copied."""
    from executorch.backends.xnnpack.serialization import xnnpack_graph_schema as schema
    from executorch.backends.xnnpack.serialization.xnnpack_graph_serialize import serialize_xnnpack_binary

    def value(number):
        plain = schema.XNNTensorValue(schema.XNNDatatype.xnn_datatype_qint8, 1, [3], 0, number, 0, number)
        return schema.XValue(schema.XNNQuantizedTensorValue(plain, schema.PerTensorQuant(scale, 7)))

    node = schema.XNode(schema.XNNCopy(input_id=0, output_id=1, flags=0), 0)
    nothing = schema.ConstantDataOffset(2**64 - 1, 0, "")
    graph = schema.XNNGraph("0", [node], [value(0), value(1)], 2, [0], [1], [nothing])
    return bytes(serialize_xnnpack_binary(graph, bytearray()))


def test_numbers_of_a_payload_have_all_their_bits_and_damage_is_reported():
    data = _payload(0.1)
    read = XnnDelegate.read(data, {}, [(3,), (3,)])
    value, ends = read.values[1], [one.external for one in (*read.inputs, *read.outputs)]
    assert value.scale.item() == torch.tensor(0.1).item()
    assert (value.zero_point, read.nodes[0].kind, ends) == (7, "XNNCopy", [0, 1])
    for end in (0, 3, 30, len(data) // 2):
        refused("its payload is damaged", XnnDelegate.read, data[:end], {}, [(3,), (3,)])
    refused("other inputs or outputs than its call", XnnDelegate.read, data, {}, [(3,), None])
    lost = bytearray(data)
    for place in range(data.index(b"XN01"), len(data)):
        lost[place] = 0xFF
    refused("its payload is damaged", XnnDelegate.read, bytes(lost), {}, [(3,), (3,)])
