"""The steps of one model with shapes that fit an utterance, what their host needs, and the utterance itself."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from pocket_tts import TTSModel
from pocket_tts.models.text_chunking import prepare_text_prompt
from torch import Tensor, nn

from kokoro_nb.errors import InputError
from kokoro_nb.models.pocket import flow_and_mimi
from kokoro_nb.models.pocket.generation import Host, Steps, Utterance, Values
from kokoro_nb.models.pocket.transformer import Write, flow_lm_state, mimi_state


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
    if min(frames, room) < 1:
        raise InputError(f"{frames} frames and {room} tokens a call hold nothing; give 1 or more of each.")
    positions = int(model.mimi.encoder_frame_rate / model.mimi.frame_rate)
    return Host(
        first=model.flow_lm.bos_emb.numpy()[None, None].copy(),
        language=_arrays(flow_lm_state(model, capacity)),
        decoder=_arrays(mimi_state(model, positions * frames)),
        room=room,
        positions=positions,
        stop_above=model.eos_threshold,
        earliest=model._MIN_FRAMES_BEFORE_EOS,
        rate=model.sample_rate,
    )


def step_modules(model: TTSModel, host: Host, write: Write = "one_hot") -> dict[str, StepModule]:
    """Return every step of `model` by name, with inputs of the shapes of `host`.

    The names are ``text``, ``conditioning step``, ``conditioning``, ``language``, ``flow`` and ``mimi``.
    """
    language, decoder = ({k: torch.from_numpy(v) for k, v in part.items()} for part in (host.language, host.decoder))
    width, dim = model.flow_lm.ldim, model.flow_lm.dim
    condition = torch.zeros(1, model.flow_lm.out_eos.in_features)
    time, latent = torch.zeros(1, 1), torch.zeros(1, 1, width)
    many = {"embeddings": torch.zeros(1, host.room, dim), "length": torch.tensor([host.room])}
    return {
        "text": StepModule(flow_and_mimi.TextEmbedding(model), {"ids": torch.zeros(1, host.room, dtype=torch.int64)}),
        "conditioning step": StepModule(
            flow_and_mimi.ConditioningStep(model, write), {"embedding": torch.zeros(1, 1, dim), **language}
        ),
        "conditioning": StepModule(flow_and_mimi.ConditioningBackbone(model, write), {**many, **language}),
        "language": StepModule(flow_and_mimi.FlowLmStep(model, write), {"latent": latent, **language}),
        "flow": StepModule(
            flow_and_mimi.FlowStep(model), {"c": condition, "s": time, "t": time + 1, "x": torch.zeros(1, width)}
        ),
        "mimi": StepModule(flow_and_mimi.MimiStep(model, write), {"latent": latent, **decoder}),
    }


def eager_steps(modules: Mapping[str, StepModule]) -> Steps:
    """Return the steps as PyTorch runs them, arrays in and arrays out."""
    return {name: _eager(step.module) for name, step in modules.items()}


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
    recommended = model.model_recommended_frames_after_eos
    return Utterance(
        ids=ids,
        voice=voice.numpy(),
        noise=draw_noise(model, model._estimate_max_gen_len(ids.shape[1]), seed),
        after_stop=after + 2 if recommended is None else recommended,
        sampler=sampler,
    )


def draw_noise(model: TTSModel, frames: int, seed: int) -> np.ndarray:
    """Return noise for `frames` frames, (frames, latent width) float32, as wide as the package draws it."""
    noise = torch.randn(frames, model.flow_lm.ldim, generator=torch.Generator().manual_seed(seed))
    return (noise * model.temp**0.5).numpy()


@torch.no_grad()
def voice_prompt(model: TTSModel, audio: Tensor) -> Tensor:
    """Return the embeddings of a voice, (1, frames and one, width), from `audio`, (samples,) at the model's rate.

    They are what `TTSModel.get_state_for_audio_prompt` has the language model read; it first ends the audio on a pause.
    """
    prompt = model._encode_audio(audio[None, None])
    if model.flow_lm.insert_bos_before_voice:
        prompt = torch.cat([model.flow_lm.bos_before_voice, prompt], dim=1)
    return prompt


def _eager(module: nn.Module) -> Callable[[Values], Values]:
    names: Any = module.output_names

    @torch.no_grad()
    def run(inputs: Values) -> Values:
        made = module(**{name: torch.from_numpy(value) for name, value in inputs.items()})
        values = made if isinstance(made, tuple) else (made,)
        return {name: value.numpy() for name, value in zip(names, values, strict=True)}

    return run


def _arrays(tensors: Mapping[str, Tensor]) -> dict[str, np.ndarray]:
    return {name: tensor.numpy() for name, tensor in tensors.items()}
