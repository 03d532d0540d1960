"""How the small voice sounds on sentences that it was never taught: audio and distances."""

from dataclasses import dataclass
from functools import cache
from itertools import islice
from pathlib import Path

import numpy as np
import torch

from kokoro_nb.errors import InputError
from kokoro_nb.models.architecture import SAMPLE_RATE, STYLE, NarrowKModel, full_config
from kokoro_nb.storage import atomic
from training.corpus import VOICES, AlignedSentence, utterance
from training.losses import log_mel
from training.sentences import sentences

HELD_OUT_SEED = 1
SAMPLED = 4  # sentences for each voice


@dataclass(frozen=True)
class Voice:
    """The model that a run has come to, in eval mode on the CPU.

    Attributes
    ----------
    model : NarrowKModel
        With the averaged weights.
    styles : torch.Tensor, shape (voices, 256)
    """

    model: NarrowKModel
    styles: torch.Tensor


@cache
def held_out_utterances(count: int) -> tuple[AlignedSentence, ...]:
    """Return `count` held-out sentences of the closed vocabulary, each in every voice.

    Raises
    ------
    InputError
        If `count` is less than 1.
    """
    if count < 1:
        raise InputError(f"{count} sentences cannot be spoken; ask for 1 or more.")
    vocab = full_config()["vocab"]
    texts = islice(sentences(HELD_OUT_SEED, held_out=True), count)
    return tuple(utterance(text, voice, vocab) for text in texts for voice in VOICES)


def voice_of(config: dict, averaged: dict[str, torch.Tensor]) -> Voice:
    """Return the model out of a learner's state.

    Parameters
    ----------
    config : dict
        What the model was built from.
    averaged : dict
        State of a `Learner`, with the averaged weights in it.
    """
    model = NarrowKModel(config)
    inner = {name.removeprefix("model."): v.cpu() for name, v in averaged.items() if name.startswith("model.")}
    model.load_state_dict(inner)
    return Voice(model.eval().requires_grad_(False), averaged["styles"].detach().cpu())


@torch.no_grad()
def taught(voice: Voice, said: AlignedSentence) -> torch.Tensor:
    """Return the decoder's audio, shape (1, samples), from the true durations, F0 and energy of `said`."""
    ids, count = torch.from_numpy(said.ids)[None], torch.tensor([len(said.ids)])
    encoded = voice.model.text_encoder(ids, count, torch.zeros_like(ids, dtype=torch.bool))
    asr = encoded.repeat_interleave(torch.from_numpy(said.durations), dim=2)
    f0, energy = torch.from_numpy(said.f0)[None], torch.from_numpy(said.energy)[None]
    return voice.model.decoder(asr, f0, energy, voice.styles[said.voice, None, :STYLE]).squeeze(1)


@torch.no_grad()
def spoken(voice: Voice, said: AlignedSentence) -> tuple[np.ndarray, np.ndarray]:
    """Return the model's own audio of the sentence, shape (samples,), and its durations, shape (symbols,), frames."""
    ids = torch.from_numpy(said.ids)[None]
    audio, durations = voice.model.forward_with_tokens(ids, voice.styles[said.voice, None])
    return audio.numpy(), durations.numpy()


def distances(voice: Voice, said: AlignedSentence) -> dict[str, float]:
    """Compare the model with espeak on one sentence.

    Returns
    -------
    dict
        ``held_out_mel``: log-mel L1 in nepers, with the true prosody. ``held_out_duration``: L1 in frames.
    """
    torch.manual_seed(0)  # the source's noise
    wanted, made = log_mel(torch.from_numpy(said.audio)[None]), log_mel(taught(voice, said))
    _, durations = spoken(voice, said)
    return {
        "held_out_mel": float((wanted - made).abs().mean()),
        "held_out_duration": float(np.abs(durations - said.durations).mean()),
    }


def write_samples(voice: Voice, step: int, folder: Path) -> dict[str, float]:
    """Write ``samples/<step>-<voice>.wav`` for each voice, and return the mean distances on held-out sentences."""
    import soundfile

    chosen = held_out_utterances(SAMPLED)
    found = [distances(voice, said) for said in chosen]
    target = folder / "samples"
    target.mkdir(parents=True, exist_ok=True)
    for said in chosen[-len(VOICES) :]:
        torch.manual_seed(0)
        with atomic(target / f"{step:06d}-{list(VOICES)[said.voice]}.wav") as draft:
            soundfile.write(draft, spoken(voice, said)[0], SAMPLE_RATE, subtype="FLOAT")
    return {name: float(np.mean([one[name] for one in found])) for name in found[0]}
