import pytest
import torch

from kokoro_nb.backends.exported import export_program
from kokoro_nb.models import stages
from kokoro_nb.models.padding import widened
from kokoro_nb.models.patches import EXPORT_PATCHES, patched
from kokoro_nb.models.speaking import DurationStage
from kokoro_nb.traces.statistics import compare

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
    return {"d": d, "pred_dur": pred_dur, "t_en": model.text_encoder(ids, lengths, mask)}


@torch.no_grad()
def _padded(model, given, room):
    """Return what the stage says of a text in a longer buffer."""
    length = torch.tensor([given["ids"].shape[1]])
    ids = widened({"ids": given["ids"]}, room, fill=7)["ids"]
    pred_dur, d, t_en = DurationStage(model)(ids, length, given["ref_s"], given["speed"])
    return {"d": d, "pred_dur": pred_dur, "t_en": t_en}


def _assert_same(found, expected, tokens, limit=LIMIT):
    assert torch.equal(found["pred_dur"][:, :tokens], expected["pred_dur"])
    for name, axis in (("d", 1), ("t_en", 2)):
        assert compare(expected[name], found[name].narrow(axis, 0, tokens)).of_peak <= limit, name
    for name, axis in (("d", 1), ("t_en", 2), ("pred_dur", 1)):
        tail = found[name].narrow(axis, tokens, found[name].shape[axis] - tokens)
        assert not tail.any(), name


@pytest.mark.parametrize(("tokens", "room"), [(1, 32), (2, 2), (15, 32), (31, 32), (33, 128)])
@pytest.mark.parametrize("patches", [(), EXPORT_PATCHES], ids=["no patch", "export patches"])
def test_the_stage_is_the_package_s_without_padding(narrow, sentence, patches, tokens, room):
    given = sentence(tokens)
    with patched(narrow.model, patches):
        found = _padded(narrow.model, given, room)
    _assert_same(found, _original(narrow.model, given), tokens)


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


FRAMES = 12
STFTS = {
    "TorchSTFT": ("explicit_noise",),
    "CustomSTFT": ("explicit_noise", "custom_stft"),
    "export patches": EXPORT_PATCHES,
}


@pytest.fixture(params=STFTS)
def on(request, narrow):
    """Patch the model so that it holds each of the STFTs in turn: their edges differ."""
    with torch.no_grad(), patched(narrow.model, STFTS[request.param]):
        yield request.param


def _error(expected, found):
    """Return the error of the valid part; behind it there is silence."""
    valid = expected.shape[1]
    assert not found[:, valid:].any()
    return compare(expected, found[:, :valid]).of_peak


def _errors(model, inputs, room, fill=float("nan")):
    """Return the error of the decoder from `har` and of the whole one, against the same without padding."""
    decoder, length = model.decoder, torch.tensor([inputs["asr"].shape[-1]])
    given = stages.from_har_inputs(decoder, inputs)
    from_har = stages.FromHarStage(decoder)(**widened(given, room, fill), length=length)
    whole = stages.DecoderStage(decoder)(**widened(inputs, room, fill), length=length)
    return (
        _error(stages.FromHarStage(decoder)(**given), from_har),
        _error(stages.DecoderStage(decoder)(**inputs), whole),
    )


@pytest.mark.parametrize("room", [FRAMES, FRAMES + 1, 2 * FRAMES])
def test_the_valid_part_is_what_it_is_without_padding(on, narrow, narrow_case, room):
    assert max(_errors(narrow.model, narrow_case.decoder_inputs(FRAMES), room)) <= LIMIT


def test_a_fault_in_the_valid_part_is_not_hidden(narrow, narrow_case):
    with torch.no_grad(), patched(narrow.model, EXPORT_PATCHES):
        inputs = widened(narrow_case.decoder_inputs(3), 5)
        inputs["asr"][0, 0, 1] = float("nan")
        audio = stages.DecoderStage(narrow.model.decoder)(**inputs, length=torch.tensor([3]))
    assert audio[:, :1800].isnan().all()
