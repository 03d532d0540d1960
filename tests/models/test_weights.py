"""Files of weights as published and damaged: loaded bit for bit, or named."""

import json

import pytest
import torch

from kokoro_nb.errors import InputError
from kokoro_nb.models import weights
from kokoro_nb.models.architecture import build, full_config, narrow_config
from kokoro_nb.models.weights import POSITION_IDS, LoadingError, digest_tensors, hub_file, load_state, read_state
from tests.refusals import refused


def test_digest_depends_on_names_values_shapes_and_dtypes_but_not_on_order():
    a, b = torch.arange(4.0), torch.ones(2)
    same = digest_tensors({"a": a, "b": b})
    assert digest_tensors({"b": b, "a": a}) == same
    others = [{"a": a, "c": b}, {"a": a, "b": 2 * b}, {"a": a.reshape(2, 2), "b": b}, {"a": a.double(), "b": b}]
    assert len({same, *(digest_tensors(other) for other in others)}) == 5


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ({"bert": torch.ones(1)}, "no Kokoro checkpoint: it must be a dict of bert, "),
        ({"bert": {"a": 1}}, r"holds 'bert\.a', which is no tensor"),
    ],
)
def test_checkpoints_of_another_form_are_refused(tmp_path, content, words):
    torch.save(content, tmp_path / "w.pth")
    refused(words, read_state, tmp_path / "w.pth")


def test_absent_files_are_named_and_a_folder_is_no_checkpoint(tmp_path):
    refused(r"There is no file .*w\.pth; check the path", read_state, tmp_path / "w.pth")
    with pytest.raises(InputError, match=r"There is no config\.json in .*; put the model's own beside its weights"):
        weights.read_config(tmp_path / "config.json")
    refused("not a whole file of tensors", weights.read_torch, tmp_path)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "is not JSON"),
        ("[]", r"lacks vocab, .*; use the config\.json that belongs to the weights"),
        (json.dumps({**full_config(), "style_dim": 64}), "has sizes that no Kokoro has"),
    ],
)
def test_configurations_that_do_not_fit_are_refused(tmp_path, text, words):
    (tmp_path / "config.json").write_text(text, encoding="utf-8")
    refused(words, weights.read_config, tmp_path / "config.json")


def test_an_uncached_hub_file_says_what_where_and_what_else(hub_cache):
    with pytest.raises(InputError, match=r"^config\.json of 'test/narrow' is neither in the hub cache") as caught:
        hub_file("test/narrow", "config.json")
    assert str(hub_cache) in str(caught.value)
    refused(r"'a/b/c' is no hub id; write it as owner/name", hub_file, "a/b/c", "config.json")


@pytest.fixture
def blank():
    """Return the narrowest model, whose weights mean nothing."""
    return build(narrow_config(36))


@pytest.fixture
def state(blank):
    return {key: tensor.clone() + 1 for key, tensor in blank.state_dict().items()}


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"text_encoder.lstm": None}, r"missing text_encoder\.lstm\..* and 5 more; use the weights and"),
        ({"bert_encoder.bias": torch.ones(3)}, r"w\.pth has another shape of bert_encoder\.bias \(3,\), not \(20,\)"),
        ({"bert_encoder.bias": torch.full((20,), torch.nan)}, r"'bert_encoder\.bias' in w\.pth holds NaN or infinity"),
    ],
)
def test_what_does_not_fit_is_named(blank, state, changed, words):
    gone = tuple(key for key, tensor in changed.items() if tensor is None)
    state = {key: tensor for key, tensor in state.items() if not gone or not key.startswith(gone)}
    state |= {key: tensor for key, tensor in changed.items() if tensor is not None}
    refused(words, load_state, blank, state, "w.pth")


def test_the_report_names_what_became_of_every_key(blank, state):
    gone = ("text_encoder.lstm.weight_ih_l0", "decoder.encode.norm1.norm.weight")
    for key in gone:
        del state[key]
    state |= {"decoder.strange": torch.ones(1), POSITION_IDS: torch.ones(1), "bert_encoder.bias": torch.ones(3)}
    state["predictor.lstm.bias_hh_l0"][0] = float("nan")
    state["predictor.lstm.weight_hh_l0"] = state["predictor.lstm.weight_hh_l0"].half()
    before = {key: tensor.clone() for key, tensor in blank.state_dict().items()}
    with pytest.raises(LoadingError, match=r"missing text_encoder\.lstm\.weight_ih_l0; unexpected") as caught:
        load_state(blank, state, "w.pth")
    report = caught.value.report
    assert (report.keys["missing"], report.keys["absent: one and zero"]) == (gone[:1], gone[1:])
    assert (report.keys["unexpected"], report.keys["superfluous"]) == (("decoder.strange",), (POSITION_IDS,))
    assert report.keys["with NaN or infinity"] == ("predictor.lstm.bias_hh_l0",)
    assert report.dtypes == ("float16", "float32")
    assert len(report.keys["used"]) == len(state) - 2
    outcomes = {row["keys"]: row["which"] for row in report.rows()}
    assert outcomes["of another shape"] == "bert_encoder.bias (3,), not (20,)"
    assert outcomes["missing"] == gone[0]
    assert all(torch.equal(tensor, before[key]) for key, tensor in blank.state_dict().items()), "nothing half-loaded"


def test_a_filter_of_zeros_stays_zero(blank, state):
    name = "decoder.encode.conv1"
    state[f"{name}.weight_v"][[1, 4]] = 0
    report = load_state(blank, state, "w.pth")
    assert report.keys["filters of zeros"] == (f"2 of {name}",)
    features = torch.ones(1, blank.decoder.encode.conv1.in_channels, 5)
    given = blank.decoder.encode.conv1(features)
    bias = state[f"{name}.bias"]
    assert torch.isfinite(given).all()
    assert torch.equal(given[0, [1, 4]], bias[[1, 4], None].expand(2, 5))
    unmended = build(narrow_config(36))
    unmended.load_state_dict(state)  # the control: what torch makes of it
    assert torch.isnan(unmended.decoder.encode.conv1(features)[0, [1, 4]]).all()
