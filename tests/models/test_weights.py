import json

import pytest
import torch

from kokoro_nb.errors import InputError
from kokoro_nb.models.architecture import full_config
from kokoro_nb.models.weights import (
    Weights,
    digest_tensors,
    hub_file,
    read_config,
    read_state,
    read_torch,
)


def test_label_names_weights_origin_size_and_digest():
    weights = Weights("narrow", "random, seed 0", 3_900_000, "0123456789abcdef")
    assert weights.label == "narrow (random, seed 0; 3.9 M parameters; sha256 01234567)"


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


def test_digest_reads_strided_and_scalar_tensors_by_value():
    matrix = torch.arange(6.0).reshape(2, 3)
    assert digest_tensors({"m": matrix.T}) == digest_tensors({"m": matrix.T.contiguous()})
    assert digest_tensors({"n": torch.tensor(1.0)}) != digest_tensors({"n": torch.tensor(2.0)})


def test_a_checkpoint_of_parts_is_flattened_and_loses_its_module_prefix(tmp_path):
    torch.save({"bert": {"module.a.weight": torch.ones(1)}, "decoder": {"b": torch.zeros(1)}}, tmp_path / "w.pth")
    assert set(read_state(tmp_path / "w.pth")) == {"bert.a.weight", "decoder.b"}


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ({"bert": torch.ones(1)}, "no Kokoro checkpoint: it must be a dict of bert, "),
        ([torch.ones(1)], "no Kokoro checkpoint"),
        ({"bert": {"a": 1}}, r"holds 'bert\.a', which is no tensor"),
    ],
)
def test_checkpoints_of_another_form_are_refused(tmp_path, content, words):
    torch.save(content, tmp_path / "w.pth")
    with pytest.raises(InputError, match=words):
        read_state(tmp_path / "w.pth")


def test_absent_files_are_named_and_a_folder_is_no_checkpoint(tmp_path):
    for name in ("w.pth", "w.safetensors"):
        with pytest.raises(InputError, match=rf"There is no file .*{name}; check the path"):
            read_state(tmp_path / name)
    with pytest.raises(InputError, match=r"There is no config\.json in .*; put the model's own beside its weights"):
        read_config(tmp_path / "config.json")
    (tmp_path / "w.safetensors").mkdir()
    with pytest.raises(InputError, match="no whole safetensors file"):
        read_state(tmp_path / "w.safetensors")
    with pytest.raises(InputError, match="not a whole file of tensors"):
        read_torch(tmp_path)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "is not JSON"),
        ("[]", r"lacks vocab, .*; use the config\.json that belongs to the weights"),
        (json.dumps({k: v for k, v in full_config().items() if k != "dropout"}), "lacks dropout; use"),
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
    for words in (str(hub_cache), "fetch it where there is a network", "a local folder", "'seeded'", "'narrow'"):
        assert words in str(caught.value)
    with pytest.raises(InputError, match=r"'a/b/c' is no hub id; write it as owner/name"):
        hub_file("a/b/c", "config.json")
