"""Files of weights as published, from torch's ONNX exporters and damaged: loaded bit for bit, or named."""

import json
import shutil

import onnx
import pytest
import torch

from kokoro_nb.backends.base import quietly
from kokoro_nb.delivery.clients.speech_program import NoiseChoice, exported_program
from kokoro_nb.errors import InputError
from kokoro_nb.listening.spectrum import log_spectral_distance
from kokoro_nb.models.architecture import build, full_config, narrow_config
from kokoro_nb.models.case import capture
from kokoro_nb.models.kokoro import load_model
from kokoro_nb.models.loading import POSITION_IDS, LoadingError, load_state
from kokoro_nb.models.onnx_weights import NOT_READ, TYPES, read_onnx, recover_state
from kokoro_nb.models.patches import patched
from kokoro_nb.models.weights import digest_tensors, hub_file, read_config, read_state, read_torch


def test_digest_depends_on_names_values_shapes_and_dtypes_but_not_on_order():
    a, b = torch.arange(4.0), torch.ones(2)
    same = digest_tensors({"a": a, "b": b})
    assert digest_tensors({"b": b, "a": a}) == same
    others = [
        {"a": a, "c": b},
        {"a": a, "b": 2 * b},
        {"a": a.reshape(2, 2), "b": b},
        {"a": a.to(torch.float64), "b": b},
    ]
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
    with pytest.raises(InputError, match=words):
        read_state(tmp_path / "w.pth")


def test_absent_files_are_named_and_a_folder_is_no_checkpoint(tmp_path):
    with pytest.raises(InputError, match=r"There is no file .*w\.pth; check the path"):
        read_state(tmp_path / "w.pth")
    with pytest.raises(InputError, match=r"There is no config\.json in .*; put the model's own beside its weights"):
        read_config(tmp_path / "config.json")
    with pytest.raises(InputError, match="not a whole file of tensors"):
        read_torch(tmp_path)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "is not JSON"),
        ("[]", r"lacks vocab, .*; use the config\.json that belongs to the weights"),
        (json.dumps({**full_config(), "style_dim": 64}), "styles of 64 numbers, Kokoro's have 128"),
    ],
)
def test_configurations_that_do_not_fit_are_refused(tmp_path, text, words):
    (tmp_path / "config.json").write_text(text, encoding="utf-8")
    with pytest.raises(InputError, match=words):
        read_config(tmp_path / "config.json")


def test_an_uncached_hub_file_says_what_where_and_what_else(hub_cache):
    with pytest.raises(InputError, match=r"^config\.json of 'test/narrow' is neither in the hub cache") as caught:
        hub_file("test/narrow", "config.json")
    assert str(hub_cache) in str(caught.value)
    with pytest.raises(InputError, match=r"'a/b/c' is no hub id; write it as owner/name"):
        hub_file("a/b/c", "config.json")


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
        ({"bert_encoder.bias": torch.ones(3)}, r"in w\.pth has the shape \(3,\), the model needs \(20,\)"),
        ({"bert_encoder.bias": torch.full((20,), torch.nan)}, r"'bert_encoder\.bias' in w\.pth holds NaN or infinity"),
    ],
)
def test_what_does_not_fit_is_named(blank, state, changed, words):
    gone = tuple(key for key, tensor in changed.items() if tensor is None)
    state = {key: tensor for key, tensor in state.items() if not gone or not key.startswith(gone)}
    state |= {key: tensor for key, tensor in changed.items() if tensor is not None}
    with pytest.raises(InputError, match=words):
        load_state(blank, state, "w.pth")


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
    assert (report.missing, report.constant) == (gone[:1], gone[1:])
    assert (report.unexpected, report.superfluous) == (("decoder.strange",), (POSITION_IDS,))
    assert report.wrong_shape == {"bert_encoder.bias": ((3,), (20,))}
    assert report.not_finite == ("predictor.lstm.bias_hh_l0",)
    assert report.dtypes == ("float16", "float32")
    assert len(report.used) == len(state) - 2
    outcomes = {row["keys"]: row["which"] for row in report.rows()}
    assert outcomes["of another shape"] == "bert_encoder.bias (3,), not (20,)"
    assert outcomes["missing"] == gone[0]
    assert all(torch.equal(tensor, before[key]) for key, tensor in blank.state_dict().items()), "nothing half-loaded"


def test_a_filter_of_zeros_stays_zero(blank, state):
    name = "decoder.encode.conv1"
    state[f"{name}.weight_v"][[1, 4]] = 0
    report = load_state(blank, state, "w.pth")
    assert report.zero_filters == {name: 2}
    features = torch.ones(1, blank.decoder.encode.conv1.in_channels, 5)
    given = blank.decoder.encode.conv1(features)
    bias = state[f"{name}.bias"]
    assert torch.isfinite(given).all()
    assert torch.equal(given[0, [1, 4]], bias[[1, 4], None].expand(2, 5))
    unmended = build(narrow_config(36))
    unmended.load_state_dict(state)  # the control: what torch makes of it
    assert torch.isnan(unmended.decoder.encode.conv1(features)[0, [1, 4]]).all()


FOLDED = ("weight_v", "weight_g")
UNREAD = tuple(f"{name}: not in the file, and not read by Kokoro" for name in NOT_READ)


@pytest.fixture(scope="module")
def whole(narrow):
    """Return the file that torch's TorchScript-based exporter makes of text to audio."""
    return exported_program(narrow, NoiseChoice())


@pytest.fixture
def copied(whole, tmp_path):
    """Return a copy with the configuration beside it."""
    (tmp_path / "config.json").write_text(json.dumps(narrow_config()), encoding="utf-8")
    return shutil.copy(whole, tmp_path / "speech.onnx")


def _changed(path, change):
    proto = onnx.load(path)
    change(proto.graph)
    onnx.save(proto, path)


def test_every_tensor_is_recovered(whole, narrow):
    (found, remarks, stored), original = recover_state(read_onnx(whole), narrow.model), narrow.model.state_dict()
    assert (remarks, stored) == (UNREAD, "float32")
    plain = [key for key in found if not key.endswith((*NOT_READ, TYPES, *FOLDED))]
    assert len(plain) > 300
    assert all(torch.equal(found[key], original[key]) for key in plain)
    assert torch.equal(found[TYPES][0], original[TYPES][0])
    norms = [key.removesuffix(".weight_v") for key in found if key.endswith("weight_v")]
    assert len(norms) == 89
    for path in norms:
        given, right = (torch._weight_norm(*(one[f"{path}.{leaf}"] for leaf in FOLDED)) for one in (found, original))
        torch.testing.assert_close(given, right, rtol=1e-6, atol=0)


def test_a_file_speaks_as_the_model_that_it_was_made_of(copied, narrow):
    kokoro = load_model(copied)
    assert kokoro.weights.label.startswith("speech (recovered from ONNX in float32; 3.9 M parameters")
    assert [row["keys"] for row in kokoro.loading.rows()][-1] == "remark"
    given, right = (capture(each, "Hi there.", g2p="espeak").tensors for each in (kokoro, narrow))
    assert torch.equal(given["durations"], right["durations"])
    for name in ("asr", "f0"):
        torch.testing.assert_close(given[name], right[name], rtol=1e-5, atol=1e-5 * float(right[name].abs().max()))
    # the source adds up its phase: equal weights within rounding give samples that differ, and the same spectrum
    assert log_spectral_distance(right["audio"].numpy(), given["audio"].numpy()) < 1.0


def test_a_filter_by_another_name_is_named_as_lost(copied):
    name = "decoder.encode.conv1.weight"

    def hide(graph):
        next(one for one in graph.initializer if one.name == name).name = "w"
        for node in graph.node:
            node.input[:] = ["w" if each == name else each for each in node.input]

    _changed(copied, hide)
    with pytest.raises(LoadingError, match=r"missing decoder\.encode\.conv1\.weight_g, .*weight_v; use") as caught:
        load_model(copied)
    assert [one.partition(":")[0] for one in caught.value.report.remarks][2:] == [
        f"decoder.encode.conv1.{leaf}" for leaf in ("weight_g", "weight_v")
    ]


class Part(torch.nn.Module):
    """One block of the decoder and one LSTM, under their names in the model."""

    def __init__(self, model):
        super().__init__()
        self.decoder, self.predictor = model.decoder, model.predictor

    def forward(self, x, style, features):
        return self.decoder.encode(x, style), self.predictor.shared(features)[0]


def test_a_part_of_a_model_names_what_it_lacks(narrow, tmp_path):
    encode, shared = narrow.model.decoder.encode, narrow.model.predictor.shared
    inputs = torch.ones(1, encode.conv1.in_channels, 5), torch.ones(1, 128), torch.ones(1, 3, shared.input_size)
    with quietly(), patched(narrow.model):
        torch.onnx.export(Part(narrow.model).eval(), inputs, dynamo=True).save(tmp_path / "part.onnx")
    tensors, remarks, _ = recover_state(read_onnx(tmp_path / "part.onnx"), narrow.model)
    found, original = {key for key in tensors if key not in NOT_READ}, narrow.model.state_dict()
    norms = {f"decoder.encode.norm{number}.norm.{leaf}" for number in (1, 2) for leaf in ("weight", "bias")}
    assert found == {key for key in original if key.startswith(("decoder.encode", "predictor.shared"))} - norms
    assert all(torch.equal(tensors[key], original[key]) for key in found if not key.endswith(FOLDED))
    lost = dict(remark.split(": ") for remark in remarks[len(UNREAD) :])
    assert {key.partition(".")[0] for key in lost} == {key.partition(".")[0] for key in original}
    assert set(lost.values()) == {"the file has no such tensor under its name or its operator's"}


@pytest.mark.parametrize(
    ("content", "words"), [(b"", "without operators"), (b"no protobuf at all", "no whole ONNX file")]
)
def test_what_is_no_onnx_file_is_refused(tmp_path, content, words):
    (tmp_path / "w.onnx").write_bytes(content)
    with pytest.raises(InputError, match=words):
        load_model(tmp_path / "w.onnx")
