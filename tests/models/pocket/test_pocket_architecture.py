import unicodedata

import pytest
import torch
import yaml
from pocket_tts.utils.config import CONFIGS_DIR
from safetensors.torch import save_file

from kokoro_nb.errors import InputError
from kokoro_nb.models.pocket import pocket_architecture
from kokoro_nb.run_apart import run_apart
from tests.refusals import refused


def test_nothing_is_fetched(monkeypatch):
    def refuse(*args, **kwargs):
        raise AssertionError("the network was asked")

    monkeypatch.setattr("socket.socket.connect", refuse)
    monkeypatch.setattr("pocket_tts.utils.utils.hf_hub_download", refuse)
    monkeypatch.setattr("pocket_tts.utils.utils.requests.get", refuse)
    small = yaml.safe_load((CONFIGS_DIR / "english_2m_2026-10.yaml").read_text(encoding="utf-8"))
    assert pocket_architecture.load_pocket(small).flow_lm.conditioner.embed.num_embeddings == 4001
    with pytest.raises(AssertionError, match="network"):  # the control: the package alone asks
        type(pocket_architecture.load_pocket()).load_model(language="english")


@pytest.mark.parametrize("text", ["Hello world.", "Grüße, 漢字!", "\u00a0ﬁ 🙂"])
def test_the_tokenizer_reads_any_text(pocket, text):
    ids = pocket.flow_lm.conditioner.tokenizer.encode(text)
    assert all(3 <= i < pocket_architecture.LEARNT for i in ids)  # none is unknown
    assert pocket.flow_lm.conditioner.tokenizer.decode(ids) == unicodedata.normalize("NFKC", text).strip()


def test_loading_leaves_the_number_of_threads_alone():
    code = "import torch; torch.set_num_threads(2); import kokoro_nb.models.pocket; print(torch.get_num_threads())"
    assert run_apart(["-c", code]).stdout.split() == ["2"]  # the package left to itself sets 1


@pytest.fixture
def files(tmp_path, pocket):
    """Write what is published: a configuration, a tokenizer and weights; return a function that writes it changed."""
    tokenizer = pocket_architecture.train_tokenizer(pocket_architecture.LEARNT, tmp_path)

    def write(change=None, **about):
        state = {name: tensor.clone() for name, tensor in pocket.state_dict().items()}
        if change:
            change(state)
        save_file(state, tmp_path / "model.safetensors")
        content = pocket_architecture.small_config() | {"weights_path": str(tmp_path / "model.safetensors")} | about
        content["flow_lm"]["lookup_table"]["tokenizer_path"] = str(tokenizer)
        (tmp_path / "pocket.yaml").write_text(yaml.safe_dump(content), encoding="utf-8")
        return str(tmp_path / "pocket.yaml")

    return write


def test_what_is_loaded_is_what_was_written(files, pocket):
    loaded = pocket_architecture.load_published(files(lambda state: state["flow_lm.bos_emb"].fill_(0.25)))
    expected = pocket.state_dict()
    for name, tensor in loaded.state_dict().items():
        if name == "flow_lm.bos_emb":
            assert (tensor == 0.25).all()
        else:
            torch.testing.assert_close(tensor, expected[name], rtol=0, atol=0)
    assert loaded.weights_label.startswith("PocketTTS pocket.yaml (published; 0.2 M parameters; sha256 ")
    assert loaded.weights_label != pocket_architecture.load_pocket().weights_label
    assert not any(parameter.requires_grad for parameter in loaded.parameters())


def _nan(state):
    state["flow_lm.bos_emb"][0] = torch.nan


def _less(state):
    del state["flow_lm.bos_emb"]


@pytest.mark.parametrize(
    ("change", "about", "said"),
    [
        (_nan, {}, "'flow_lm.bos_emb' of .*pocket.yaml holds NaN or infinity; the file is damaged"),
        (_less, {}, "cannot be loaded from .*pocket.yaml .RuntimeError: .*use the configuration, the weights"),
        (None, {"weights_path": "absent.safetensors"}, "There is no file absent.safetensors, which .* names"),
    ],
)
def test_what_does_not_fit_is_refused(files, change, about, said):
    refused(said, pocket_architecture.load_published, files(change, **about))


def test_what_is_no_configuration_is_refused(tmp_path):
    refused(r"There is no file .*absent\.yaml", pocket_architecture.load_published, str(tmp_path / "absent.yaml"))
    path = tmp_path / "own.yaml"
    for text in ("{", "- 1", yaml.safe_dump(pocket_architecture.small_config() | {"colour": "red"})):
        path.write_text(text, encoding="utf-8")
        refused("is no configuration of PocketTTS", pocket_architecture.load_published, str(path))
    path.write_text(yaml.safe_dump(pocket_architecture.small_config()), encoding="utf-8")
    refused("names no weights", pocket_architecture.load_published, str(path))


def test_without_a_network_the_hub_is_asked_for_in_vain(hub_cache):
    with pytest.raises(InputError, match=r"model\.safetensors of 'kyutai/pocket-tts' is neither in the hub cache"):
        pocket_architecture.load_published(pocket_architecture.HUB)
