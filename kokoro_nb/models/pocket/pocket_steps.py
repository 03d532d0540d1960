"""The steps of one model with shapes that fit an utterance, what their host needs, and the utterance itself.

What the package itself says, on noise that is given to it, is the reference of every step and every loop.
"""

import math
import queue
import threading
from collections.abc import Mapping
from copy import copy
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from pocket_tts import TTSModel
from pocket_tts.models.text_chunking import prepare_text_prompt
from pocket_tts.modules.stateful_module import ModelState, increment_steps, init_states
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from kokoro_nb.errors import InputError, undocumented
from kokoro_nb.models.pocket import flow_and_mimi
from kokoro_nb.models.pocket.generation import Host, Speech, Steps, Utterance, Values
from kokoro_nb.models.pocket.transformer import flow_lm_state, mimi_state

SEEN_IN = {"pocket-tts": ("4.0", "4.0")}  # what is not documented of the package's model


@dataclass(frozen=True)
class StepModule:
    """A step, and inputs of the shapes that it is exported for: zeros, and the empty states."""

    module: nn.Module
    inputs: Mapping[str, Tensor]


def host_of(model: TTSModel, capacity: int, frames: int, room: int) -> Host:
    """Return what the host of `model` needs.

    Parameters
    ----------
    model : pocket_tts.TTSModel
        See `pocket_architecture.load_pocket`.
    capacity : int
        Positions of the language model: voice, text and frames together.
    frames : int
        How many there may be.
    room : int
        Tokens that one call of ``text`` and ``conditioning`` takes.

    Raises
    ------
    InputError
        If one of them is below 1.
    """
    if min(capacity, frames, room) < 1:
        given = f"{capacity} positions, {frames} frames and {room} tokens a call"
        raise InputError(f"{given} hold nothing; give 1 or more of each.")
    positions = int(model.mimi.encoder_frame_rate / model.mimi.frame_rate)
    first, earliest = model.flow_lm.bos_emb.numpy()[None, None].copy(), _own(model, "_MIN_FRAMES_BEFORE_EOS")
    language, decoder = _arrays(flow_lm_state(model, capacity)), _arrays(mimi_state(model, positions * frames))
    return Host(first, language, decoder, room, positions, model.eos_threshold, earliest, model.sample_rate)


def step_modules(model: TTSModel, host: Host) -> dict[str, StepModule]:
    """Return every step of `model` by name, with inputs of the shapes of `host`.

    The names are ``text``, ``conditioning step``, ``conditioning``, ``language``, ``flow`` and ``mimi``.
    """
    language, decoder = ({k: torch.from_numpy(v) for k, v in part.items()} for part in (host.language, host.decoder))
    width, dim = model.flow_lm.ldim, model.flow_lm.dim
    condition = torch.zeros(1, model.flow_lm.out_eos.in_features)
    time, latent = torch.zeros(1, 1), torch.zeros(1, 1, width)
    many = {"embeddings": torch.zeros(1, host.room, dim), "length": torch.tensor([host.room])}
    kinds = {
        "text": (flow_and_mimi.TextEmbedding, {"ids": torch.zeros(1, host.room, dtype=torch.int64)}),
        "conditioning step": (flow_and_mimi.ConditioningStep, {"embedding": torch.zeros(1, 1, dim), **language}),
        "conditioning": (flow_and_mimi.ConditioningBackbone, {**many, **language}),
        "language": (flow_and_mimi.FlowLmStep, {"latent": latent, **language}),
        "flow": (flow_and_mimi.FlowStep, {"c": condition, "s": time, "t": time + 1, "x": torch.zeros(1, width)}),
        "mimi": (flow_and_mimi.MimiStep, {"latent": latent, **decoder}),
    }
    return {name: StepModule(kind(model), inputs) for name, (kind, inputs) in kinds.items()}


def eager_steps(modules: Mapping[str, StepModule]) -> Steps:
    """Return the steps as PyTorch runs them, arrays in and arrays out."""
    return {name: partial(_called, step.module) for name, step in modules.items()}


def utterance(model: TTSModel, text: str, voice: Tensor, seed: int = 0, sampler: int = 1) -> Utterance:
    """Prepare `text` as the package does it.

    Parameters
    ----------
    model : pocket_tts.TTSModel
        Whose tokenizer and temperature are used.
    text : str
        One sentence, or a few short ones.
    voice : torch.Tensor, shape (1, length, width)
        See `voice_prompt`.
    seed : int
        Of the noise; for as many frames as the package allows.
    sampler : int
        Steps of the sampler.

    Raises
    ------
    InputError
        If the text is empty, or the package would split it.
    """
    if not text.strip():
        raise InputError("There is no text to say; give a sentence.")
    prepared, after = prepare_text_prompt(
        text,
        model.pad_with_spaces_for_short_inputs,
        model.remove_semicolons,
        model.append_terminal_punctuation,
        model.capitalize_first_letter,
        model.replace_characters,
    )
    ids = model.flow_lm.conditioner.prepare(prepared).numpy()
    noise = draw_noise(model, _own(model, "_estimate_max_gen_len")(ids.shape[1]), seed)
    recommended = model.model_recommended_frames_after_eos
    after_stop = after + 2 if recommended is None else recommended
    return Utterance(ids, voice.numpy(), noise, after_stop, sampler)


def _own(model: TTSModel, name: str) -> Any:
    return undocumented(model, name, "PocketTTS cannot be taken apart", SEEN_IN)


def draw_noise(model: TTSModel, frames: int, seed: int) -> np.ndarray:
    """Return noise for `frames` frames, (frames, latent width) float32, as wide as the package draws it."""
    noise = torch.randn(frames, model.flow_lm.ldim, generator=torch.Generator().manual_seed(seed))
    return (noise * model.temp**0.5).numpy()


@torch.no_grad()
def voice_prompt(model: TTSModel, audio: Tensor) -> Tensor:
    """Return the embeddings of a voice, (1, frames and one, width), from `audio`, (samples,) at the model's rate.

    They are what `TTSModel.get_state_for_audio_prompt` has the language model read; it first ends the audio on a pause.
    """
    prompt = _own(model, "_encode_audio")(audio[None, None])
    if model.flow_lm.insert_bos_before_voice:
        prompt = torch.cat([model.flow_lm.bos_before_voice, prompt], dim=1)
    return prompt


@torch.no_grad()
def _called(module: Any, inputs: Values) -> Values:
    made = module(**{name: torch.from_numpy(value) for name, value in inputs.items()})
    values = made if isinstance(made, tuple) else (made,)
    return {name: value.numpy() for name, value in zip(module.output_names, values, strict=True)}


def _arrays(tensors: Mapping[str, Tensor]) -> dict[str, np.ndarray]:
    return {name: tensor.numpy() for name, tensor in tensors.items()}


@torch.no_grad()
def package_speech(model: TTSModel, utterance: Utterance, stop: bool = True) -> Speech:
    """Have the package's own code say `utterance`.

    Parameters
    ----------
    model : pocket_tts.TTSModel
        Left as it is.
    utterance : Utterance
        Its noise takes the place of what the package draws.
    stop : bool
        Whether the end that the model announces is listened to; without, a frame is made for each row of the noise.

    Returns
    -------
    Speech
        Caches have room for as much as was written.
    """
    voice, ids = torch.from_numpy(utterance.voice), torch.from_numpy(utterance.ids)
    tokens, limit = voice.shape[1] + ids.shape[1], len(utterance.noise)
    language = package_read(model, ids, voice, limit)
    read = flow_lm_state(model, tokens, language)
    stops: list[Tensor] = []
    speaker = copy(model)  # of the same parts, so that the settings of the model stay
    speaker.sampler_decode_steps, speaker.eos_threshold = utterance.sampler, model.eos_threshold if stop else math.inf
    with model.flow_lm.out_eos.register_forward_hook(lambda _module, _args, out: stops.append(out)):
        latents = package_latents(speaker, language, torch.from_numpy(utterance.noise), utterance.after_stop)
    frames, decoder = _decoded(model, latents)
    at_end = flow_lm_state(model, tokens + limit, language)
    said, ends = torch.cat(latents)[:, 0].numpy(), torch.cat(stops).flatten().numpy()
    return Speech(said, ends, frames, _arrays(read), _arrays(at_end), decoder, model.sample_rate)


class WholeModel(nn.Module):
    """The package's own code from ids to latents as one module, loop and all, as a converter would be given it.

    Parameters
    ----------
    model : pocket_tts.TTSModel
        Shared, not copied.
    after_stop : int
        See `generation.Utterance`.
    """

    output_names = ("latents",)

    def __init__(self, model: TTSModel, after_stop: int = 1):
        super().__init__()
        self.model = model
        self.after_stop = after_stop

    def forward(self, ids: Tensor, voice: Tensor, noise: Tensor) -> Tensor:
        """Return the latents, (frames, latent width); see `generation.Utterance` for the inputs."""
        state = package_read(self.model, ids, voice, noise.shape[0])
        return torch.cat(package_latents(self.model, state, noise, self.after_stop))[:, 0]


def package_read(model: TTSModel, ids: Tensor, voice: Tensor, frames: int) -> ModelState:
    """Return the package's state after voice and text, with room for `frames` frames."""
    state = init_states(model.flow_lm, 1, voice.shape[1] + ids.shape[1] + frames)
    step = _own(model, "_run_flow_lm_and_increment_step")
    step(state, audio_conditioning=voice)
    step(state, text_tokens=ids)
    return state


def package_latents(model: TTSModel, state: ModelState, noise: Tensor, after_stop: int) -> list[Tensor]:
    """Return the latents, (1, 1, width) each, that the package's loop makes of `noise`, (frames, width)."""
    found: queue.Queue[Tensor | None] = queue.Queue()
    with GivenNoise(noise):
        _own(model, "_autoregressive_generation")(state, noise.shape[0], after_stop, found, threading.Event())
    return [latent for latent in iter(found.get, None) if latent is not None]


def _decoded(model: TTSModel, latents: list[Tensor]) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """Decode frame by frame, as the package's worker does where nothing is queued."""
    positions = int(model.mimi.encoder_frame_rate / model.mimi.frame_rate)
    state, frames = init_states(model.mimi, 1, positions * len(latents)), []
    for latent in latents:
        scaled = latent * model.flow_lm.emb_std + model.flow_lm.emb_mean
        frames.append(model.mimi.decode_from_latent(scaled, state).flatten())
        increment_steps(model.mimi, state, positions)
    kept = mimi_state(model, positions * len(latents), state)
    return torch.stack(frames).numpy(), _arrays(kept)


class GivenNoise(TorchFunctionMode):
    """Hands out the rows of `noise`, (draws, latent width), wherever the package draws from a normal distribution.

    The package makes an empty tensor and fills it. The row takes the place of the empty tensor, so that a tracer finds
    no write that is not the package's.
    """

    def __init__(self, noise: Tensor) -> None:
        super().__init__()
        self._rows, self._shape = iter(noise), (1, noise.shape[1])

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        options = kwargs or {}
        if func is torch.empty and (args[0] if len(args) == 1 else args) == self._shape:
            return next(self._rows)[None]
        return options["tensor"] if func is torch.nn.init.normal_ else func(*args, **options)
