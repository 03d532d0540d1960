"""Whisper in transformers' form: the same figures out of openai-whisper's modules, and folders that are none."""

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from transformers import WhisperConfig, WhisperForConditionalGeneration

from kokoro_nb.errors import InputError
from kokoro_nb.listening.recogniser import load_whisper, read_folder, whisper_available


@pytest.fixture(scope="module")
def theirs():
    torch.manual_seed(0)
    sizes = {"d_model": 16, "encoder_layers": 2, "decoder_layers": 3, "vocab_size": 51865, "num_mel_bins": 80}
    heads = {"encoder_attention_heads": 2, "decoder_attention_heads": 4}
    widths = {"encoder_ffn_dim": 64, "decoder_ffn_dim": 64}
    return WhisperForConditionalGeneration(WhisperConfig(**sizes, **heads, **widths)).eval()


@pytest.fixture
def folder(theirs, tmp_path):
    theirs.save_pretrained(tmp_path)
    return tmp_path


def _scores(model):
    mel, tokens = torch.randn(1, 80, 3000, generator=torch.Generator().manual_seed(1)), torch.tensor([[50258, 7, 9]])
    with torch.no_grad():
        return model(mel, tokens)


def _expected(theirs):
    return _scores(lambda mel, tokens: theirs(input_features=mel, decoder_input_ids=tokens).logits)


def test_it_computes_what_transformers_computes(folder, theirs):
    assert whisper_available(folder) is None
    model = load_whisper(folder)
    assert (model.dims.n_audio_layer, model.dims.n_text_layer, model.dims.n_text_head) == (2, 3, 4)
    torch.testing.assert_close(_scores(model), _expected(theirs), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("save", "file"), [(save_file, "model.safetensors"), (torch.save, "pytorch_model.bin")])
def test_weights_in_several_files(theirs, tmp_path, save, file):
    state = {name: tensor for name, tensor in theirs.state_dict().items() if name != "proj_out.weight"}
    index = {}
    for part in (0, 1):
        path = tmp_path / f"{part}{Path(file).suffix}"
        tensors = {name: state[name].half().contiguous() for name in list(state)[part::2]}
        save(tensors, path)
        index |= dict.fromkeys(tensors, path.name)
    (tmp_path / f"{file}.index.json").write_text(json.dumps({"weight_map": index}))
    theirs.config.save_pretrained(tmp_path)
    torch.testing.assert_close(_scores(load_whisper(tmp_path)), _expected(theirs), rtol=0.05, atol=0.01)  # float16
    path.unlink()
    with pytest.raises(InputError, match=rf"There is no file .*{path.name}, which the index names"):
        load_whisper(tmp_path)


def test_folders_that_are_none(folder, tmp_path):
    (folder / "model.safetensors").write_bytes(b"half")
    with pytest.raises(InputError, match=r"model\.safetensors cannot be read as a file of tensors"):
        read_folder(folder)
    (folder / "model.safetensors").unlink()
    assert "neither model.safetensors nor pytorch_model.bin" in whisper_available(folder)
    (folder / "pytorch_model.bin").write_bytes(b"")
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"model_type": "wav2vec2"}))
    with pytest.raises(InputError, match="describes no Whisper model but 'wav2vec2'"):
        load_whisper(folder)
    (folder / "config.json").unlink()
    with pytest.raises(InputError, match=r"There is no config\.json in"):
        load_whisper(folder)
