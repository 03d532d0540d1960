"""Seven stages chained in PyTorch say what the model says in one."""

import pytest
import torch

from kokoro_nb.models import frame_cuts
from kokoro_nb.models.kokoro import load_model
from kokoro_nb.models.patches import patched
from kokoro_nb.models.speaking import (
    AlbertStage,
    PitchStage,
    PostAlbertStage,
    SourcesStage,
    SpreadStage,
    TailStage,
    TextToAudio,
    VocoderStage,
)

IDS = torch.tensor([[0, 50, 83, 54, 156, 57, 0]])


@pytest.fixture(scope="module")
def chained():
    """Return what every stage gives, and the durations, features and audio of the model in one, from the same `har`."""
    model = load_model("narrow").model
    voice = 0.3 * torch.randn(1, 256, generator=torch.Generator().manual_seed(1))
    timbre, style, speed = voice[:, :128], voice[:, 128:], torch.tensor([0.9])
    generator, mask, values = model.decoder.generator, torch.ones_like(IDS, dtype=torch.int32), {}

    def run(stage, *given):
        made = stage.eval()(*given)
        values.update(zip(stage.output_names, made if isinstance(made, tuple) else (made,), strict=True))

    with torch.no_grad(), patched(model):
        run(AlbertStage(model), IDS.int(), mask)
        run(PostAlbertStage(model), values["bert_dur"], IDS.int(), style, speed, mask)
        values["pred_dur"] = torch.round(values["duration"]).clamp(min=1).int()
        run(SpreadStage(), values["pred_dur"], values["d"], values["t_en"])
        run(PitchStage(model), values["en"], style)
        run(SourcesStage(generator, shows_har=True), values["F0"], timbre)
        sources = (values[name] for name in ("x_source_0", "x_source_1"))
        run(VocoderStage(model), values["asr"], values["F0"], values["N"], *sources, timbre)
        run(TailStage(generator), values["x_pre"])
        whole = TextToAudio(model).eval()
        lasting, d, t_en = whole.text_features(IDS, voice, speed)
        asr, f0, n = whole.frame_features(lasting, d, t_en, voice)
        audio = frame_cuts.from_har(model.decoder, asr, f0, n, timbre, values["har"])
    return values, {"pred_dur": lasting, "asr": asr, "F0": f0, "N": n, "audio": audio.reshape(1, -1)}


@pytest.mark.parametrize("name", ["pred_dur", "asr", "F0", "N", "audio"])
def test_the_chain_gives_what_the_model_gives(chained, name):
    ours, theirs = (values[name] for values in chained)
    assert ours.shape == theirs.shape
    assert (ours - theirs).abs().max() <= 1e-5 * theirs.abs().max()


def test_a_source_left_out_is_seen(chained):
    values, theirs = chained
    model = load_model("narrow").model
    with torch.no_grad(), patched(model):
        nothing = (torch.zeros_like(values[name]) for name in ("x_source_0", "x_source_1"))
        _, x_pre = VocoderStage(model).eval()(values["asr"], values["F0"], values["N"], *nothing, torch.zeros(1, 128))
        audio = TailStage(model.decoder.generator).eval()(x_pre)
    assert (audio - theirs["audio"]).abs().max() > 0.1 * theirs["audio"].abs().max()
