import math
import re
from functools import partial

import pytest
import torch
from kokoro.istftnet import Decoder
from kokoro.model import KModel

from kokoro_nb.models import architecture, noise
from kokoro_nb.models.architecture import build, full_config, initialise, narrow_config
from kokoro_nb.models.case import capture
from kokoro_nb.models.kokoro import load_model
from kokoro_nb.models.weights import digest_tensors

# Parameters that cannot change the audio or the durations, in any Kokoro, and why.
NO_EFFECT = {
    r"bert\.pooler\.(weight|bias)": "the pooler's output is not read",
    r"bert\..*\.attention\.key\.bias": "adds the same to every score of a softmax",
    r"(decoder|predictor)\..*\.conv1\.bias": "a constant, which the instance norm behind it subtracts",
    r"decoder\.generator\..*\.convs1\.\d\.bias": "a constant, which the instance norm behind it subtracts",
}
SOURCE = re.compile(r"decoder\.generator\.m_source\.l_linear\.(weight|bias)")  # runs without gradients: perturbed below


def _sensitivity(model, case, monkeypatch):
    """Return, for each parameter, the largest gradient of a random sum over the audio and the unrounded durations.

    In float64, where what cancels leaves 1e-15 and is far from what is merely weak.
    """
    model.double().requires_grad_(True)
    model.decoder.generator.stft.window = model.decoder.generator.stft.window.double()  # no buffer
    monkeypatch.setattr(torch, "zeros", partial(torch.zeros, dtype=torch.float64))  # the forward pads with zeros
    durations = []
    hook = model.predictor.duration_proj.register_forward_hook(
        lambda _module, _args, logits: durations.append(torch.sigmoid(logits).sum(-1))
    )
    with noise.replayed(case.noise()):
        unguarded = KModel.forward_with_tokens.__wrapped__  # without its torch.no_grad
        audio, _ = unguarded(model, case.tensors["ids"], case.tensors["ref_s"].double(), case.speed)
    hook.remove()
    source = torch.Generator().manual_seed(0)
    total = sum((x * torch.randn(x.shape, generator=source, dtype=x.dtype)).sum() for x in (audio, durations[0]))
    assert total.dtype == torch.float64
    total.backward()
    return {name: 0.0 if p.grad is None else float(p.grad.abs().max()) for name, p in model.named_parameters()}


def _dead(sensitivity):
    return {name for name, value in sensitivity.items() if value < 1e-10}


def test_narrow_and_full_have_the_same_module_paths_and_the_package_s_own_forward(narrow, seeded):
    assert seeded.weights.parameters == 81_810_022, "the published size"
    assert 3_000_000 < narrow.weights.parameters <= 4_000_000
    assert set(narrow.model.state_dict()) == set(seeded.model.state_dict())
    assert type(narrow.model).forward_with_tokens is KModel.forward_with_tokens
    assert type(narrow.model.decoder).forward is Decoder.forward


def test_the_constants_are_those_of_the_model(narrow):
    config, generator = full_config()["istftnet"], narrow.model.decoder.generator
    # 10 x 6 upsampling, hop 5: 300 samples per F0 value, of which a frame has two
    assert 2 * math.prod(config["upsample_rates"]) * config["gen_istft_hop_size"] == architecture.SAMPLES_PER_FRAME
    assert architecture.FRAMES_PER_SECOND == 40
    assert generator.m_source.l_sin_gen.dim == architecture.HARMONICS
    assert generator.m_source.l_sin_gen.sampling_rate == architecture.SAMPLE_RATE
    assert narrow.model.context_length - 2 == architecture.MAX_PHONEMES
    assert narrow.model.decoder.encode.norm1.fc.in_features == architecture.STYLE


def test_initialise_depends_on_the_seed_alone():
    model = build(narrow_config(36))
    found = []
    for seed in (0, 1, 0):
        torch.manual_seed(len(found))
        initialise(model, seed)
        found.append(digest_tensors(model.state_dict()))
    assert found[0] == found[2] != found[1]


def test_instance_norm_keeps_what_the_checkpoint_does_not_have(narrow):
    norms = [module for module in narrow.model.modules() if isinstance(module, torch.nn.InstanceNorm1d)]
    assert len(norms) == 58 + 12  # decoder; F0 and N predictors
    assert all((norm.weight == 1).all() and (norm.bias == 0).all() for norm in norms)


def test_every_parameter_is_alive_but_those_that_cannot_be(narrow_case, monkeypatch):
    sensitivity = _sensitivity(load_model("narrow").model, narrow_case, monkeypatch)
    assert all(math.isfinite(value) for value in sensitivity.values())
    dead = {name for name in _dead(sensitivity) if not SOURCE.fullmatch(name)}
    listed = {name for name in sensitivity if any(re.fullmatch(pattern, name) for pattern in NO_EFFECT)}
    assert dead == listed
    for pattern in NO_EFFECT:  # no reason outlives what it explains
        assert any(re.fullmatch(pattern, name) for name in dead), pattern


@pytest.mark.parametrize("name", ["weight", "bias"])
def test_the_source_s_mixing_layer_is_alive(narrow, narrow_case, name):
    parameter = getattr(narrow.model.decoder.generator.m_source.l_linear, name)
    before = parameter.clone()
    parameter.data += 0.1
    try:
        changed = capture(narrow, narrow_case.text, g2p="espeak").tensors["audio"]
    finally:
        parameter.data.copy_(before)
    assert (changed - narrow_case.tensors["audio"]).abs().max() > 1e-3


@pytest.mark.parametrize("name", ["narrow", "seeded"])
def test_audio_is_finite_bounded_and_not_silent(request, name):
    audio = capture(request.getfixturevalue(name), "Hi.", g2p="espeak").tensors["audio"]
    assert torch.isfinite(audio).all()
    assert 0.01 < audio.abs().max() < 1
    assert audio.square().mean().sqrt() > 1e-3
