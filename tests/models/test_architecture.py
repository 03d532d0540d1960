import math
import re
from functools import partial

import pytest
import torch
from kokoro.istftnet import Decoder
from kokoro.model import KModel

from kokoro_nb.models import noise
from kokoro_nb.models.case import capture
from kokoro_nb.models.kokoro import load_model

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


def test_narrow_and_full_have_the_same_module_paths_and_the_package_s_own_forward(narrow, seeded):
    assert seeded.weights.parameters == 81_810_022, "the published size"
    assert 3_000_000 < narrow.weights.parameters <= 4_000_000
    assert set(narrow.model.state_dict()) == set(seeded.model.state_dict())
    assert type(narrow.model).forward_with_tokens is KModel.forward_with_tokens
    assert type(narrow.model.decoder).forward is Decoder.forward


def test_every_parameter_is_alive_but_those_that_cannot_be(narrow_case, monkeypatch):
    sensitivity = _sensitivity(load_model("narrow").model, narrow_case, monkeypatch)
    assert all(math.isfinite(value) for value in sensitivity.values())
    dead = {name for name, value in sensitivity.items() if value < 1e-10 and not SOURCE.fullmatch(name)}
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
