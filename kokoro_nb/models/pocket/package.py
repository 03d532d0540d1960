"""What the package itself says, on noise that is given to it: the reference of every step and every loop."""

import queue
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from pocket_tts import TTSModel
from pocket_tts.modules.stateful_module import ModelState, increment_steps, init_states
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from kokoro_nb.models.pocket.generation import Speech, Utterance
from kokoro_nb.models.pocket.pocket_architecture import without_warnings
from kokoro_nb.models.pocket.transformer import flow_lm_state, mimi_state


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
    with _settings(model, utterance.sampler, stop), _listened(model) as stops:
        latents = package_latents(model, language, torch.from_numpy(utterance.noise), utterance.after_stop)
    frames, decoder = _decoded(model, latents)
    return Speech(
        torch.cat(latents)[:, 0].numpy(),
        torch.cat(stops).flatten().numpy(),
        frames,
        {name: tensor.numpy() for name, tensor in read.items()},
        {name: tensor.numpy() for name, tensor in flow_lm_state(model, tokens + limit, language).items()},
        decoder,
        model.sample_rate,
    )


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
    model._run_flow_lm_and_increment_step(state, audio_conditioning=voice)
    model._run_flow_lm_and_increment_step(state, text_tokens=ids)
    return state


def package_latents(model: TTSModel, state: ModelState, noise: Tensor, after_stop: int) -> list[Tensor]:
    """Return the latents, (1, 1, width) each, that the package's loop makes of `noise`, (frames, width)."""
    found: queue.Queue[Tensor | None] = queue.Queue()
    with given_noise(noise), without_warnings():
        model._autoregressive_generation(state, noise.shape[0], after_stop, found, threading.Event())
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
    return torch.stack(frames).numpy(), {name: tensor.numpy() for name, tensor in kept.items()}


@contextmanager
def _settings(model: TTSModel, sampler: int, stop: bool) -> Iterator[None]:
    before = model.sampler_decode_steps, model.eos_threshold
    model.sampler_decode_steps = sampler
    model.eos_threshold = model.eos_threshold if stop else float("inf")
    try:
        yield
    finally:
        model.sampler_decode_steps, model.eos_threshold = before


class _Given(TorchFunctionMode):
    """Answers the package's draws from a normal distribution.

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


@contextmanager
def given_noise(noise: Tensor) -> Iterator[None]:
    """Hand out the rows of `noise`, (draws, latent width), wherever the package draws from a normal distribution."""
    with _Given(noise):
        yield


@contextmanager
def _listened(model: TTSModel) -> Iterator[list[Tensor]]:
    """Collect the logits of the end of speech."""
    stops: list[Tensor] = []
    hook = model.flow_lm.out_eos.register_forward_hook(lambda _module, _args, out: stops.append(out))
    try:
        yield stops
    finally:
        hook.remove()
