import subprocess
import sys
import unicodedata

import pytest
import torch

from kokoro_nb.errors import InputError
from kokoro_nb.models.pocket import flow_and_mimi, transformer
from kokoro_nb.models.pocket.pocket_architecture import (
    LEARNT,
    load_pocket,
    packaged_config,
    small_config,
    train_tokenizer,
)


def _names():
    from pocket_tts.utils.config import CONFIGS_DIR

    return sorted(path.stem for path in CONFIGS_DIR.glob("*.yaml"))


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


@pytest.mark.parametrize("name", _names())
def test_every_configuration_of_the_package_has_a_decoder_that_the_step_knows(name):
    config = packaged_config(name)["mimi"]
    seanet = config.get("decoder_seanet") or config["seanet"]
    assert (len(seanet["ratios"]), seanet["n_residual_layers"], seanet["pad_mode"]) == (3, 1, "constant")


def test_every_weight_reaches_the_output():
    model = load_pocket().requires_grad_(True)
    ids = model.flow_lm.conditioner.prepare("Hello.")
    draw = torch.Generator().manual_seed(0)
    prompt = torch.cat(
        [model.flow_lm.bos_before_voice, model._encode_audio(torch.randn(1, 1, 3840, generator=draw))], 1
    )
    embeddings = torch.cat([prompt, flow_and_mimi.TextEmbedding(model)(ids)], dim=1)
    language, decoder = transformer.flow_lm_state(model, 40), transformer.mimi_state(model, 48)
    length = torch.tensor([embeddings.shape[1]])
    cache, position = flow_and_mimi.ConditioningBackbone(model)(embeddings, length, **language)
    latent, total = model.flow_lm.bos_emb[None, None], torch.zeros(())
    for _ in range(3):
        condition, stop, cache, position = flow_and_mimi.FlowLmStep(model)(latent, cache, position)
        x, begin, end = torch.randn(1, 8, generator=draw), torch.tensor([[0.25]]), torch.tensor([[0.5]])
        latent = (x + flow_and_mimi.FlowStep(model)(condition, begin, end, x))[:, None]
        audio, *rest = flow_and_mimi.MimiStep(model)(latent, **decoder)
        decoder = dict(zip(decoder, rest, strict=True))
        total = total + (audio * torch.randn(audio.shape, generator=draw)).sum() + stop.sum()
    total.backward()
    dead = [name for name, p in model.named_parameters() if p.grad is None or not p.grad.any()]
    assert dead == []


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
