import subprocess
import sys
import unicodedata

import pytest
import torch

from kokoro_nb.errors import InputError
from kokoro_nb.models.pocket.pocket_architecture import (
    LEARNT,
    load_pocket,
    small_config,
    train_tokenizer,
)


def _same(model, other):
    pairs = zip(model.parameters(), other.parameters(), strict=True)
    return [torch.equal(a, b) for a, b in pairs]


def test_nothing_is_fetched(monkeypatch):
    def refuse(*args, **kwargs):
        raise AssertionError("the network was asked")

    monkeypatch.setattr("socket.socket.connect", refuse)
    monkeypatch.setattr("pocket_tts.utils.utils.hf_hub_download", refuse)
    monkeypatch.setattr("pocket_tts.utils.utils.requests.get", refuse)
    assert load_pocket("english_2m_2026-10").flow_lm.conditioner.embed.num_embeddings == 4001
    with pytest.raises(AssertionError, match="network"):  # the control: the package alone asks
        type(load_pocket()).load_model(language="english")


def test_the_seed_decides_the_weights(pocket):
    assert all(_same(pocket, load_pocket(seed=0)))
    other = load_pocket(seed=1)
    same = {name for (name, _), equal in zip(other.named_parameters(), _same(pocket, other), strict=True) if equal}
    assert same == {"flow_lm.out_eos.bias"}  # set to where speech ends


def test_it_is_small_and_says_what_it_holds(pocket):
    total = sum(p.numel() for p in pocket.parameters())
    assert 5e4 < total < 2e5
    assert pocket.mimi.decoder.weights_label == pocket.weights_label
    assert f"PocketTTS narrow (random, seed 0; {total / 1e6:.1f} M parameters" in pocket.weights_label
    assert not any(p.requires_grad for p in pocket.parameters())
    assert not pocket.training


@pytest.mark.parametrize("text", ["Hello world.", "Grüße, 漢字!", "\u00a0ﬁ 🙂"])
def test_the_tokenizer_reads_any_text(pocket, text):
    ids = pocket.flow_lm.conditioner.tokenizer.encode(text)
    assert all(3 <= i < LEARNT for i in ids)  # none is unknown
    assert pocket.flow_lm.conditioner.tokenizer.decode(ids) == unicodedata.normalize("NFKC", text).strip()


def test_a_tokenizer_or_a_configuration_that_cannot_be_is_refused(tmp_path):
    with pytest.raises(InputError, match="at least 320"):
        train_tokenizer(300, tmp_path)
    with pytest.raises(InputError, match=r"no configuration 'klingon'; use 'narrow', 'seeded' or one of .*english"):
        load_pocket("klingon")


@pytest.mark.parametrize("spoil", [lambda c: c.pop("mimi"), lambda c: c.update(colour="red")])
def test_a_configuration_of_another_form_is_refused(spoil):
    config = small_config()
    spoil(config)
    with pytest.raises(InputError, match="start from one of the package's own"):
        load_pocket(config)


def test_loading_leaves_the_number_of_threads_alone():
    code = "import torch; torch.set_num_threads(2); import kokoro_nb.models.pocket; print(torch.get_num_threads())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["2"]  # the package left to itself sets 1
