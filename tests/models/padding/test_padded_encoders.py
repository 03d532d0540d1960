import pytest
import torch

from kokoro_nb.backends.exported import export_program, snapshot
from kokoro_nb.models.patches import EXPORT_PATCHES, patched
from kokoro_nb.models.speaking import DurationStage
from kokoro_nb.models.stages import BertStep, DurationEncoderStep, DurationsStep, TextEncoderStep
from kokoro_nb.models.static_buffers import widened
from kokoro_nb.traces.parity import compare

LIMIT = 1e-5  # of the peak, in float32; some 1e-6 was measured


@torch.no_grad()
def _original(model, given):
    """Return what the package's own modules say, with their packed sequences and without padding."""
    ids, style = given["ids"], given["ref_s"][:, 128:]
    lengths, mask = torch.tensor([ids.shape[1]]), torch.zeros_like(ids, dtype=torch.bool)
    encoded = model.bert_encoder(model.bert(ids, attention_mask=(~mask).int()))
    d = model.predictor.text_encoder(encoded.transpose(1, 2), style, lengths, mask)
    x, _ = model.predictor.lstm(d)
    lasting = torch.sigmoid(model.predictor.duration_proj(x)).sum(-1) / given["speed"]
    pred_dur = torch.round(lasting).clamp(min=1).long()
    return {"encoded": encoded, "d": d, "pred_dur": pred_dur, "t_en": model.text_encoder(ids, lengths, mask)}


@torch.no_grad()
def _padded(model, given, room, fill=float("nan")):
    """Return what the stages say, each on the outputs of the one before with `fill` put behind the text."""
    length = torch.tensor([given["ids"].shape[1]])
    ids = widened({"ids": given["ids"]}, room, fill=7)["ids"]
    encoded = BertStep(model)(ids, length=length)
    dirty = widened({"encoded": encoded[:, :length]}, room, fill)["encoded"]
    d = DurationEncoderStep(model)(dirty, given["ref_s"], length=length)
    dirty = widened({"d": d[:, :length]}, room, fill)["d"]
    pred_dur = DurationsStep(model)(dirty, given["speed"], length=length)
    return {"encoded": encoded, "d": d, "pred_dur": pred_dur, "t_en": TextEncoderStep(model)(ids, length=length)}


def _assert_same(found, expected, tokens, limit=LIMIT):
    assert torch.equal(found["pred_dur"][:, :tokens], expected["pred_dur"])
    for name, axis in (("encoded", 1), ("d", 1), ("t_en", 2)):
        assert compare(expected[name], found[name].narrow(axis, 0, tokens)).of_peak <= limit, name
    for name, axis in (("encoded", 1), ("d", 1), ("t_en", 2), ("pred_dur", 1)):
        tail = found[name].narrow(axis, tokens, found[name].shape[axis] - tokens)
        assert not tail.any(), name


@pytest.mark.parametrize(("tokens", "room"), [(1, 32), (2, 2), (15, 32), (31, 32), (33, 128)])
def test_every_stage_is_the_package_s_without_padding(narrow, sentence, tokens, room):
    given = sentence(tokens)
    expected = _original(narrow.model, given)
    _assert_same(_padded(narrow.model, given, room), expected, tokens)


def test_in_float64_nothing_but_rounding_is_left(narrow, sentence, in_double):
    model, given = snapshot(narrow.model, double=True), sentence(11)
    given |= {"ref_s": given["ref_s"].double(), "speed": given["speed"].double()}
    _assert_same(_padded(model, given, 32), _original(model, given), 11, limit=1e-12)


@pytest.mark.parametrize("patches", [(), EXPORT_PATCHES], ids=["no patch", "export patches"])
def test_the_stage_of_durations_is_its_parts(narrow, sentence, patches):
    given = sentence(9)
    length = torch.tensor([9])
    with torch.no_grad(), patched(narrow.model, patches):
        ids = widened({"ids": given["ids"]}, 16, fill=3)["ids"]
        pred_dur, d, t_en = DurationStage(narrow.model)(ids, length, given["ref_s"], given["speed"])
    whole = {"pred_dur": pred_dur, "d": d, "t_en": t_en, "encoded": _padded(narrow.model, given, 16)["encoded"]}
    _assert_same(whole, _original(narrow.model, given), 9)


def test_the_exported_graph_names_the_eager_modules_and_asks_no_value(narrow, sentence):
    given = {**sentence(8), "length": torch.tensor([5])}
    with torch.no_grad(), patched(narrow.model, EXPORT_PATCHES):
        exported = export_program(DurationStage(narrow.model), given)
    assert exported.outputs == ("pred_dur", "d", "t_en")
    nodes = [node for node in exported.program.graph.nodes if node.op == "call_function"]
    refused = ("pack", "repeat_interleave", ".item", "_local_scalar", "nonzero", "index", "gather", "rand")
    assert [node for node in nodes if any(word in str(node.target) for word in refused)] == []
    lstms = [list(node.meta["nn_module_stack"].values())[-1][0] for node in nodes if "lstm" in str(node.target)]
    parts = ("text_encoder.lstm", "predictor.lstm", *(f"predictor.text_encoder.lstms.{i}" for i in (0, 2, 4)))
    assert sorted(lstms) == sorted([*parts, *parts])  # each direction by itself
