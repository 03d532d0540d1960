"""Stages, steps and programs put together are the model."""

import inspect
from itertools import pairwise

import pytest
import torch

from kokoro_nb.models import model_cuts, noise, seven_stages, stages
from kokoro_nb.models.case import static_inputs
from kokoro_nb.models.padding import EXTENTS, widened
from kokoro_nb.models.patches import EXPORT_PATCHES, patched
from kokoro_nb.models.speaking import FEATURES, DurationProgram, SynthesizerProgram, TextToAudio
from kokoro_nb.models.stages import chain
from tests.refusals import refused

FRAMES = 12


@pytest.fixture
def decoder(narrow):
    return narrow.model.decoder


@pytest.fixture
def inputs(narrow_case):
    return narrow_case.decoder_inputs(FRAMES)


@pytest.fixture(params=[("explicit_noise",), EXPORT_PATCHES], ids=["explicit noise", "export patches"])
def on(request, narrow):
    """Patch the model, once with what the stages need alone, once with all that an export takes."""
    with torch.no_grad(), patched(narrow.model, request.param):
        yield request.param


def test_the_whole_decoder_is_the_package_s_bit_for_bit(narrow, narrow_case, decoder, inputs):
    with torch.no_grad(), noise.replayed(narrow_case.noise(FRAMES)):
        expected = decoder(*(inputs[name] for name in ("asr", "f0", "n", "s"))).reshape(1, -1)
    with torch.no_grad(), patched(narrow.model, ("explicit_noise",)):
        audio = stages.DecoderStage(decoder)(**inputs)
    assert audio.shape == (1, 600 * FRAMES)
    assert torch.equal(audio, expected)


def test_the_parts_put_together_are_the_whole(on, decoder, inputs):
    parts = stages.parts(decoder, inputs)
    blocks = ["encode", "decode.0", "decode.1", "decode.2", "decode.3"]
    assert list(parts) == ["source", "stft forward", *blocks, "generator", "stft inverse"]
    alone = {name: module(**given) for name, (module, given) in parts.items()}
    given = {name: of for name, (_module, of) in parts.items()}
    assert torch.equal(torch.cat(alone["stft forward"], dim=1), alone["source"])
    assert torch.equal(alone["source"], given["generator"]["har"])
    for before, after in pairwise(blocks):
        width = alone[before].shape[1]
        assert torch.equal(given[after]["x"][:, :width], alone[before])
    assert torch.equal(alone["decode.3"], given["generator"]["x"])
    assert torch.equal(alone["generator"][:, :11].exp(), given["stft inverse"]["spec"])
    assert torch.equal(alone["generator"][:, 11:].sin(), given["stft inverse"]["phase"])
    assert torch.equal(alone["stft inverse"], stages.DecoderStage(decoder)(**inputs))
    assert not any(block._forward_pre_hooks for block in (decoder.encode, *decoder.decode)), "it leaves no hook"


CUT = {"t_en": "t_en", "d": "d", "pred_dur": "durations", "asr": "asr", "f0": "f0", "n": "n", "s": "s"}


@torch.no_grad()
def run_chain(model, case, frames, tokens=None):
    """Return every tensor of the steps by name, inputs among them."""
    values = dict(static_inputs(case, frames, tokens))
    with patched(model, ("explicit_noise",)):
        for module in chain(model, frames).values():
            names = inspect.signature(module.forward).parameters
            made = module(**{name: values[name] for name in names if name in values})
            made = made if isinstance(made, tuple) else (made,)
            values |= dict(zip(module.output_names, made, strict=True))
    return values


@pytest.fixture(scope="module")
def values(narrow, narrow_case):
    return run_chain(narrow.model, narrow_case, narrow_case.frames)


@pytest.mark.parametrize("name", CUT)
def test_up_to_the_decoder_they_are_the_model(values, narrow_case, name):
    expected = narrow_case.tensors[CUT[name]].double()
    found = values[name].reshape(expected.shape).double()
    assert (found - expected).abs().max() <= 1e-5 * expected.abs().max()  # float32 in another order


def test_the_decoders_steps_are_the_decoder(narrow, narrow_case):
    # on the same inputs: the phase in between makes more of any difference before it
    given = narrow_case.decoder_inputs()
    with torch.no_grad(), patched(narrow.model, ("explicit_noise",)):
        steps = chain(narrow.model, narrow_case.frames)
        har = steps["har"](steps["source"](given["f0"], given["harmonic_noise"]))
        x = steps["trunk"](given["asr"], given["f0"], given["n"], given["s"])
        x_pre, x_post = steps["generator"](x, given["s"], *har)
        audio = steps["audio"](*steps["spectrum"](x_post))
        again = narrow.model.decoder.generator.conv_post(x_pre)
    expected = narrow_case.tensors["audio"]
    assert (audio.reshape(-1) - expected).abs().max() <= 1e-5 * expected.abs().max()  # sums in another order
    assert torch.equal(again, x_post)


def test_one_frame_is_refused(narrow):
    refused("cannot compute 1 frames", chain, narrow.model, 1)


def test_static_buffers_are_filled_with_zeros_or_cut(narrow_case):
    count, frames = narrow_case.tensors["ids"].numel(), narrow_case.frames
    given = static_inputs(narrow_case, frames + 2, count + 3)
    assert given["ids"].shape == given["attention_mask"].shape == (1, count + 3)
    assert given["attention_mask"].sum() == count
    assert not given["ids"][:, count:].any()
    assert not given["harmonic_noise"][:, 600 * frames :].any()
    assert torch.equal(given["harmonic_noise"][:, : 600 * frames], narrow_case.tensors["harmonic_noise"])
    assert static_inputs(narrow_case, 4)["harmonic_noise"].shape == (1, 2400, 9)
    refused("longer than 3 tokens", static_inputs, narrow_case, 4, 3)


def test_every_extent_is_how_the_pipelines_own_tensors_grow(narrow, narrow_case):
    tokens = narrow_case.tensors["ids"].numel()
    few, many = (run_chain(narrow.model, narrow_case, frames, tokens + more) for frames, more in ((4, 0), (7, 2)))
    valid = {"tokens": tokens, "frames": 4}, {"tokens": tokens + 2, "frames": 7}
    seen = set(EXTENTS) & set(few)
    assert set(EXTENTS) - seen == {"length", "initial_phase", "har", "en"}  # of other ways to cut the pipeline
    for name in seen:
        lengths = [{extent.axis: extent.length(room) for extent in EXTENTS[name]} for room in valid]
        for values, length in zip((few, many), lengths, strict=True):
            assert {axis: values[name].shape[axis] for axis in length} == length, name
        grown = [axis for axis, size in enumerate(few[name].shape) if many[name].shape[axis] != size]
        assert set(grown) == set(lengths[0]), name


def test_too_little_room_and_an_unknown_input_are_refused(narrow_case):
    refused("'asr' is longer than 3 frames; give more room", widened, narrow_case.decoder_inputs(4), 3)
    refused("not known how the input 'latent' grows", widened, {"latent": torch.zeros(1)}, 3)


IDS = (0, 50, 83, 54, 156, 57, 0)


@torch.no_grad()
def test_both_say_what_one_says_whatever_stands_behind_the_text(narrow):
    source, room = torch.Generator().manual_seed(1), 10
    voice, speed = 0.3 * torch.randn(1, 256, generator=source), torch.tensor([0.9])
    tokens = torch.full((1, room), 77)
    tokens[0, : len(IDS)] = torch.tensor(IDS)
    mask = torch.arange(room)[None] < len(IDS)
    with patched(narrow.model):
        waveform, duration = TextToAudio(narrow.model).eval()(tokens[:, : len(IDS)], voice, speed)
        lasting, d = DurationProgram(narrow.model).eval()(tokens, mask, voice[:, 128:], speed)
        indices = torch.arange(room).repeat_interleave(lasting)
        module = SynthesizerProgram(narrow.model).eval()
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


@pytest.fixture(scope="module")
def chained(narrow):
    """Return what every stage gives, and the durations, features and audio of the model in one, from the same `har`."""
    model, ids = narrow.model, torch.tensor([IDS])
    voice = 0.3 * torch.randn(1, 256, generator=torch.Generator().manual_seed(1))
    timbre, style, speed = voice[:, :128], voice[:, 128:], torch.tensor([0.9])
    generator, mask, values = model.decoder.generator, torch.ones_like(ids, dtype=torch.int32), {}

    def run(stage, *given):
        made = stage.eval()(*given)
        values.update(zip(stage.output_names, made if isinstance(made, tuple) else (made,), strict=True))

    with torch.no_grad(), patched(model):
        run(seven_stages.AlbertStage(model), ids.int(), mask)
        run(seven_stages.PostAlbertStage(model), values["bert_dur"], ids.int(), style, speed, mask)
        values["pred_dur"] = torch.round(values["duration"]).clamp(min=1).int()
        run(seven_stages.SpreadStage(), values["pred_dur"], values["d"], values["t_en"])
        run(seven_stages.PitchStage(model), values["en"], style)
        read = generator.noise_convs[0].register_forward_pre_hook(lambda _, given: values.update(har=given[0]))
        run(seven_stages.SourcesStage(generator), values["F0"], timbre)
        read.remove()
        sources = (values[name] for name in ("x_source_0", "x_source_1"))
        run(seven_stages.VocoderStage(model), values["asr"], values["F0"], values["N"], *sources, timbre)
        run(seven_stages.TailStage(generator), values["x_pre"])
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
