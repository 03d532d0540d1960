import inspect
from itertools import pairwise

import pytest
import torch

from kokoro_nb.errors import InputError
from kokoro_nb.models import noise, stages
from kokoro_nb.models.patches import EXPORT_PATCHES, patched
from kokoro_nb.models.stages import chain
from kokoro_nb.models.static_buffers import static_inputs

FRAMES = 12


@pytest.fixture
def decoder(narrow):
    return narrow.model.decoder


@pytest.fixture
def inputs(narrow_case):
    return narrow_case.decoder_inputs(FRAMES)


@pytest.fixture
def package_audio(decoder, inputs, narrow_case):
    """Return what the package's own decoder says on the same noise."""
    with torch.no_grad(), noise.replayed(narrow_case.noise(FRAMES)):
        return decoder(*(inputs[name] for name in ("asr", "f0", "n", "s"))).reshape(1, -1)


@pytest.fixture(params=[("explicit_noise",), EXPORT_PATCHES], ids=["explicit noise", "export patches"])
def on(request, narrow):
    """Patch the model, once with what the stages need alone, once with all that an export takes."""
    with torch.no_grad(), patched(narrow.model, request.param):
        yield request.param


def test_the_whole_decoder_is_the_package_s_bit_for_bit(narrow, decoder, inputs, package_audio):
    with torch.no_grad(), patched(narrow.model, ("explicit_noise",)):
        audio = stages.DecoderStage(decoder)(**inputs)
    assert audio.shape == (1, 600 * FRAMES)
    assert torch.equal(audio, package_audio)


def test_without_explicit_noise_the_input_is_not_read(decoder, inputs, package_audio):
    with torch.no_grad():
        assert not torch.equal(stages.DecoderStage(decoder)(**inputs), package_audio)


def test_source_and_the_rest_make_the_whole(on, decoder, inputs):
    har = stages.SourceStage(decoder)(inputs["f0"], inputs["harmonic_noise"])
    assert har.shape == (1, 22, 120 * FRAMES + 1)
    rest = {name: inputs[name] for name in ("asr", "f0", "n", "s")}
    audio = stages.FromHarStage(decoder)(**rest, har=har)
    assert torch.equal(audio, stages.DecoderStage(decoder)(**inputs))


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


def test_each_step_holds_only_what_it_runs(narrow):
    steps = chain(narrow.model, 4)
    parameters = sum(p.numel() for step in steps.values() for p in step.parameters())
    # all but the pooler of BERT, which nothing reads, is in one step each
    assert parameters <= sum(p.numel() for p in narrow.model.parameters())
    assert not list(steps["alignment"].parameters())
    assert {name.partition(".")[0] for name, _ in steps["source"].named_parameters()} == {"m_source"}


def test_one_frame_is_refused(narrow):
    with pytest.raises(InputError, match="cannot compute 1 frames"):
        chain(narrow.model, 1)
