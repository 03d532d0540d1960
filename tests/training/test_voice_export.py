import json

import pytest
import torch

from kokoro_nb.errors import InputError
from kokoro_nb.models.kokoro import load_model
from kokoro_nb.training import samples
from kokoro_nb.training import voice_export as export_module
from kokoro_nb.training.model_card import EARLIER
from kokoro_nb.training.samples import spoken, voice_of, write_samples
from kokoro_nb.training.trainer import Trainer, save_checkpoint
from kokoro_nb.training.voice import export


@pytest.fixture
def run(tiny, tiny_corpus, tmp_path, monkeypatch):
    monkeypatch.setattr(export_module, "JUDGED", 1)
    trainer = Trainer(tiny, tiny_corpus)
    trainer.advance()
    save_checkpoint(trainer, tmp_path / "run")
    return trainer, tmp_path


def test_what_is_written_can_be_loaded_and_speaks_the_same(run, tiny_corpus):
    trainer, folder = run
    export(folder / "run", folder / "mini")
    loaded = load_model(folder / "mini")
    assert loaded.default_voice in {"ef_espeak", "em_espeak"}
    voice = voice_of(trainer.learner.config, trainer.averaged())
    for name, tensor in voice.model.state_dict().items():
        torch.testing.assert_close(loaded.model.state_dict()[name], tensor, rtol=1e-3, atol=1e-4)
    table = load_model_voice(loaded, "em_espeak")
    assert table.shape == (510, 1, 256)
    torch.testing.assert_close(table[0].float(), voice.styles[:1], rtol=1e-3, atol=1e-4)
    audio, durations = spoken(voice, tiny_corpus[0])
    assert len(audio) == 600 * durations.sum()


def load_model_voice(loaded, name):
    from safetensors.torch import load_file

    return load_file(loaded.voice_file(name))["voice"]


def test_the_card_tells_where_the_voice_comes_from(run):
    trainer, folder = run
    trainer.history.append({"step": 1, "mel": 1.25})
    save_checkpoint(trainer, folder / "run")
    (folder / "mini").mkdir(exist_ok=True)
    (folder / "mini" / "MODEL_CARD.md").write_text("## Ears\n\n20 of 20 sentences")
    export(folder / "run", folder / "mini")
    card = (folder / "mini" / "MODEL_CARD.md").read_text()
    for said in (
        "20 of 20 sentences",
        EARLIER,
        "espeak-ng's",
        "Apache-2.0",
        "1 of 8 steps",
        "| mel | 1.25 |",
        "em_espeak",
    ):
        assert said in card
    assert json.loads((folder / "mini" / "config.json").read_text())["decoder_width"] == 36


def test_what_does_not_fit_is_refused(run, monkeypatch):
    trainer, folder = run
    trainer.average["styles"].fill_(1e6)
    save_checkpoint(trainer, folder / "run")
    with pytest.raises(InputError, match="does not fit into float16"):
        export(folder / "run", folder / "mini")
    assert not (folder / "mini").exists()
    monkeypatch.setattr(export_module, "MOST_BYTES", 1000)
    with pytest.raises(InputError, match="1000 are allowed"):
        export(folder / "run", folder / "mini")


def test_samples_are_written_for_each_voice(run, tmp_path, monkeypatch):
    trainer, _ = run
    monkeypatch.setattr(samples, "SAMPLED", 1)
    found = write_samples(voice_of(trainer.learner.config, trainer.averaged()), 7, tmp_path)
    assert found.keys() == {"held_out_mel", "held_out_duration"}
    assert all(0 < value < 20 for value in found.values())
    names = sorted(p.name for p in (tmp_path / "samples").iterdir())
    assert names == ["000007-ef_espeak.wav", "000007-em_espeak.wav"]


def test_no_sentences_at_all_are_refused():
    with pytest.raises(InputError, match="ask for 1 or more"):
        samples.held_out_utterances(0)
