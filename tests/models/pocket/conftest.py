"""The small PocketTTS, what the package itself says with it, and the same through our steps."""

from dataclasses import dataclass
from types import SimpleNamespace

import pytest
import torch
from torch import Tensor

from kokoro_nb.models.pocket import flow_lm, mimi, state
from kokoro_nb.models.pocket.architecture import load_pocket

TEXT = "Hello world, this is a test."
VOICE = 5  # embeddings of a voice, which come before the text
SAMPLER = 4  # steps of the sampler: a wrong time does not show at one


@dataclass
class Spoken:
    """What came out, frame by frame, and the states after it."""

    read: dict[str, Tensor]  # the language model's state after voice and text
    latents: list[Tensor]
    audio: list[Tensor]
    stops: list[Tensor]
    language: dict[str, Tensor]
    decoder: dict[str, Tensor]


@pytest.fixture(scope="session")
def pocket():
    return load_pocket()


@pytest.fixture(scope="session")
def voice(pocket):
    return torch.randn(1, VOICE, pocket.flow_lm.dim, generator=torch.Generator().manual_seed(7))


def noise(model, frame):
    """Return the sampler's noise for `frame`, as the package draws it after this seed."""
    torch.manual_seed(100 + frame)
    return torch.empty(1, model.flow_lm.ldim).normal_(0, model.temp**0.5)


@torch.no_grad()
def say_package(model, voice, frames):
    """Have the package's own code speak."""
    from pocket_tts.modules.stateful_module import increment_steps, init_states

    ids = model.flow_lm.conditioner.prepare(TEXT)
    capacity, steps = VOICE + ids.shape[1] + frames, model.sampler_decode_steps
    model.sampler_decode_steps, stops = SAMPLER, []
    hook = model.flow_lm.out_eos.register_forward_hook(lambda _module, _args, out: stops.append(out))
    language, decoder = init_states(model.flow_lm, 1, capacity), init_states(model.mimi, 1, 16 * frames)
    try:
        model._run_flow_lm_and_increment_step(language, audio_conditioning=voice)
        model._run_flow_lm_and_increment_step(language, text_tokens=ids)
        read, latents, audio = state.flow_lm_state(model, capacity, language), [], []
        stops.clear()
        latent = torch.full((1, 1, model.flow_lm.ldim), float("nan"))
        for frame in range(frames):
            torch.manual_seed(100 + frame)
            latent, _ = model._run_flow_lm_and_increment_step(language, backbone_input_latents=latent)
            latents.append(latent)
            scaled = latent * model.flow_lm.emb_std + model.flow_lm.emb_mean
            audio.append(model.mimi.decode_from_latent(scaled, decoder))
            increment_steps(model.mimi, decoder, 16)
    finally:
        hook.remove()
        model.sampler_decode_steps = steps
    ends = state.flow_lm_state(model, capacity, language), state.mimi_state(model, 16 * frames, decoder)
    return Spoken(read, latents, audio, stops, *ends)


@torch.no_grad()
def read_in_steps(model, voice, capacity, write):
    """Read voice and text: the voice one by one, the text at once with room to spare."""
    ids = model.flow_lm.conditioner.prepare(TEXT)
    one, many = flow_lm.ConditioningStep(model, write), flow_lm.ConditioningBackbone(model, write)
    cache, position = state.flow_lm_state(model, capacity).values()
    for i in range(VOICE):
        cache, position = one(voice[:, i : i + 1], cache, position)
    embeddings = torch.nn.functional.pad(flow_lm.TextEmbedding(model)(ids), (0, 0, 0, 4), value=3.0)
    cache, position = many(embeddings, torch.tensor([ids.shape[1]]), cache, position)
    return {"cache": cache, "position": position}


@torch.no_grad()
def say_in_steps(model, voice, frames, write="one_hot"):
    """Speak by the steps alone."""
    capacity = VOICE + model.flow_lm.conditioner.prepare(TEXT).shape[1] + frames
    language = read = read_in_steps(model, voice, capacity, write)
    step, flow = flow_lm.FlowLmStep(model, write), flow_lm.FlowStep(model)
    decode, decoder = mimi.MimiStep(model, write), state.mimi_state(model, 16 * frames)
    latent, latents, audio, stops = model.flow_lm.bos_emb[None, None], [], [], []
    for frame in range(frames):
        condition, stop, *language = step(latent, **language)
        language, x = dict(zip(("cache", "position"), language, strict=True)), noise(model, frame)
        for i in range(SAMPLER):
            begin, end = torch.tensor([[i / SAMPLER]]), torch.tensor([[(i + 1) / SAMPLER]])
            x = x + flow(condition, begin, end, x) / SAMPLER
        latent = x[:, None]
        samples, *rest = decode(latent, **decoder)
        decoder = dict(zip(decoder, rest, strict=True))
        latents.append(latent)
        audio.append(samples)
        stops.append(stop)
    return Spoken(read, latents, audio, stops, language, decoder)


def of_peak(found, expected):
    """Return the largest difference as a share of the peak of what was expected."""
    return float((found - expected).abs().max() / expected.abs().max())


def worst(found, expected):
    """Return the largest difference of two utterances, as a share of the peak, by what differs."""
    pairs = {
        **{
            name: (torch.cat(getattr(found, name)), torch.cat(getattr(expected, name))) for name in ("latents", "audio")
        },
        "stops": (torch.cat(found.stops), torch.cat(expected.stops)),
        **{f"language {name}": (found.language[name], expected.language[name]) for name in expected.language},
        **{f"decoder {name}": (found.decoder[name], expected.decoder[name]) for name in expected.decoder},
    }
    return {name: of_peak(*pair) for name, pair in pairs.items()}


@pytest.fixture(scope="session")
def drive():
    """Return the functions above: tests cannot import them from here."""
    return SimpleNamespace(
        package=say_package, steps=say_in_steps, read=read_in_steps, worst=worst, of_peak=of_peak, text=TEXT
    )
