"""Two programs with the frames between them left to the host, or seven stages chained, say what one program says."""

import pytest
import torch

from kokoro_nb.errors import InputError
from kokoro_nb.models import model_cuts, speaking
from kokoro_nb.models.kokoro import load_model
from kokoro_nb.models.patches import patched
from kokoro_nb.models.seven_stages import (
    AlbertStage,
    PitchStage,
    PostAlbertStage,
    SourcesStage,
    SpreadStage,
    TailStage,
    VocoderStage,
)
from kokoro_nb.models.speaking import FEATURES, DurationProgram, SynthesizerProgram, TextToAudio

IDS = (0, 50, 83, 54, 156, 57, 0)


@pytest.fixture(scope="module")
def kokoro():
    return load_model("narrow")


@torch.no_grad()
def test_both_say_what_one_says_whatever_stands_behind_the_text(kokoro):
    source, room = torch.Generator().manual_seed(1), 10
    voice, speed = 0.3 * torch.randn(1, 256, generator=source), torch.tensor([0.9])
    tokens = torch.full((1, room), 77)
    tokens[0, : len(IDS)] = torch.tensor(IDS)
    mask = torch.arange(room)[None] < len(IDS)
    with patched(kokoro.model):
        waveform, duration = TextToAudio(kokoro.model).eval()(tokens[:, : len(IDS)], voice, speed)
        lasting, d = DurationProgram(kokoro.model).eval()(tokens, mask, voice[:, 128:], speed)
        indices = torch.arange(room).repeat_interleave(lasting)
        module = SynthesizerProgram(kokoro.model).eval()
        audio = module(tokens, mask, indices, d, voice)
        module.shows_har = True
        again, har = module(tokens, mask, indices, d, voice)
    assert torch.equal(lasting[: len(IDS)], duration)
    assert not lasting[len(IDS) :].any()
    assert d.shape == (1, room, FEATURES)
    assert not d[:, len(IDS) :].any()
    assert audio.shape == (1, 1, len(waveform))
    assert torch.corrcoef(torch.stack([audio.reshape(-1), waveform]))[0, 1] > 0.8  # the phase is ill-conditioned
    assert torch.equal(again, audio)
    assert har.shape == (1, 22, 120 * len(indices) + 1)


def test_more_features_than_hosts_have_room_for_are_refused(kokoro, monkeypatch):
    monkeypatch.setattr(speaking, "FEATURES", 100)
    with pytest.raises(InputError, match="gives 208 features, and hosts have room for 100"):
        DurationProgram(kokoro.model)


@pytest.fixture(scope="module")
def chained():
    """Return what every stage gives, and the durations, features and audio of the model in one, from the same `har`."""
    model, ids = load_model("narrow").model, torch.tensor([IDS])
    voice = 0.3 * torch.randn(1, 256, generator=torch.Generator().manual_seed(1))
    timbre, style, speed = voice[:, :128], voice[:, 128:], torch.tensor([0.9])
    generator, mask, values = model.decoder.generator, torch.ones_like(ids, dtype=torch.int32), {}

    def run(stage, *given):
        made = stage.eval()(*given)
        values.update(zip(stage.output_names, made if isinstance(made, tuple) else (made,), strict=True))

    with torch.no_grad(), patched(model):
        run(AlbertStage(model), ids.int(), mask)
        run(PostAlbertStage(model), values["bert_dur"], ids.int(), style, speed, mask)
        values["pred_dur"] = torch.round(values["duration"]).clamp(min=1).int()
        run(SpreadStage(), values["pred_dur"], values["d"], values["t_en"])
        run(PitchStage(model), values["en"], style)
        read = generator.noise_convs[0].register_forward_pre_hook(lambda _, given: values.update(har=given[0]))
        run(SourcesStage(generator), values["F0"], timbre)
        read.remove()
        sources = (values[name] for name in ("x_source_0", "x_source_1"))
        run(VocoderStage(model), values["asr"], values["F0"], values["N"], *sources, timbre)
        run(TailStage(generator), values["x_pre"])
        whole = TextToAudio(model).eval()
        lasting, d, t_en = whole.text_features(ids, voice, speed)
        asr, f0, n = whole.frame_features(lasting, d, t_en, voice)
        audio = model_cuts.from_har(model.decoder, asr, f0, n, timbre, values["har"])
    return values, {"pred_dur": lasting, "asr": asr, "F0": f0, "N": n, "audio": audio.reshape(1, -1)}


@pytest.mark.parametrize("name", ["pred_dur", "asr", "F0", "N", "audio"])
def test_the_chain_gives_what_the_model_gives(chained, name):
    ours, theirs = (values[name] for values in chained)
    assert ours.shape == theirs.shape
    assert (ours - theirs).abs().max() <= 1e-5 * theirs.abs().max()
