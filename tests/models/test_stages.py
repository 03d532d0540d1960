from dataclasses import replace
from itertools import pairwise

import pytest
import torch

from kokoro_nb.models import noise, stages
from kokoro_nb.models.patches import EXPORT_PATCHES, patched

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


def test_cutting_leaves_no_hook(on, decoder, inputs):
    blocks = [decoder.encode, *decoder.decode]
    stages.parts(decoder, inputs)
    assert not any(block._forward_pre_hooks for block in blocks)


@pytest.mark.parametrize(("site", "heard"), [("initial_phase", False), ("branch", False), ("harmonic", True)])
def test_only_the_harmonic_noise_is_heard(decoder, inputs, narrow_case, package_audio, site, heard):
    other = replace(narrow_case.noise(FRAMES), **{site: getattr(noise.draw(FRAMES, seed=99), site)})
    with torch.no_grad(), noise.replayed(other):
        audio = decoder(*(inputs[name] for name in ("asr", "f0", "n", "s"))).reshape(1, -1)
    change = (audio - package_audio).abs().max()
    if heard:
        assert change > 1e-3
    else:
        assert change == 0.0
