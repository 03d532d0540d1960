"""How the small voice sounds on sentences that it was never taught: audio, pictures and distances."""

from dataclasses import dataclass
from functools import cache
from itertools import islice
from pathlib import Path

import numpy as np
import torch

from kokoro_nb.errors import InputError
from kokoro_nb.models.architecture import SAMPLE_RATE, STYLE, NarrowKModel, full_config
from kokoro_nb.storage import atomic
from kokoro_nb.training.corpus import VOICES, Utterance, utterance
from kokoro_nb.training.losses import FLOOR, log_mel
from kokoro_nb.training.sentences import sentences

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
def held_out_utterances(count: int) -> tuple[Utterance, ...]:
    """Return `count` held-out sentences of the closed vocabulary, each in every voice.

    Raises
    ------
    InputError
        If none are asked for.
    """
    if count < 1:
        raise InputError(f"{count} sentences are asked for; ask for 1 or more.")
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
def taught(voice: Voice, said: Utterance) -> torch.Tensor:
    """Return the decoder's audio, shape (1, samples), from the true durations, F0 and energy of `said`."""
    ids, count = torch.from_numpy(said.ids)[None], torch.tensor([len(said.ids)])
    encoded = voice.model.text_encoder(ids, count, torch.zeros_like(ids, dtype=torch.bool))
    asr = encoded.repeat_interleave(torch.from_numpy(said.durations), dim=2)
    f0, energy = torch.from_numpy(said.f0)[None], torch.from_numpy(said.energy)[None]
    return voice.model.decoder(asr, f0, energy, voice.styles[said.voice, None, :STYLE]).squeeze(1)


@torch.no_grad()
def spoken(voice: Voice, said: Utterance) -> tuple[np.ndarray, np.ndarray]:
    """Return the model's own audio of the sentence, shape (samples,), and its durations, shape (symbols,), frames."""
    ids = torch.from_numpy(said.ids)[None]
    audio, durations = voice.model.forward_with_tokens(ids, voice.styles[said.voice, None])
    return audio.numpy(), durations.numpy()


def distances(voice: Voice, said: Utterance) -> dict[str, float]:
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
    """Write ``samples/<step>.png`` and one WAV for each voice, and return the mean distances on held-out sentences."""
    import soundfile

    chosen = held_out_utterances(SAMPLED)
    found = [distances(voice, said) for said in chosen]
    target = folder / "samples"
    target.mkdir(parents=True, exist_ok=True)
    shown = chosen[-len(VOICES) :]
    for said in shown:
        torch.manual_seed(0)
        with atomic(target / f"{step:06d}-{list(VOICES)[said.voice]}.wav") as draft:
            soundfile.write(draft, spoken(voice, said)[0], SAMPLE_RATE, subtype="FLOAT")
    _draw(target / f"{step:06d}.png", voice, shown)
    return {name: float(np.mean([one[name] for one in found])) for name in found[0]}


def _draw(path: Path, voice: Voice, shown: tuple[Utterance, ...]) -> None:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(5 * len(shown), 8), layout="constrained")
    axes = figure.subplots(3, len(shown), squeeze=False)
    for column, said in enumerate(shown):
        rows = {
            "espeak": torch.from_numpy(said.audio)[None],
            "true prosody": taught(voice, said),
            "own prosody": torch.from_numpy(spoken(voice, said)[0])[None],
        }
        for axis, (title, audio) in zip(axes[:, column], rows.items(), strict=True):
            axis.imshow(log_mel(audio)[0], origin="lower", aspect="auto", vmin=np.log(FLOOR), vmax=-1, cmap="magma")
            axis.set_title(f"{title}: {said.text}", fontsize=8)
    with atomic(path) as draft:
        figure.savefig(draft, dpi=80, format="png")
