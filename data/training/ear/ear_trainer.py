"""A training run of the small ear: short windows for the most part, and whisper's whole window of 30 s."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import islice
from pathlib import Path

import numpy as np
import torch

from kokoro_nb.errors import InputError
from training.ear.batch import collate, draw_ear_batch, plain
from training.ear.ear_corpus import HELD_OUT_VOICES, Clip, make_clip
from training.ear.ear_model import TERMS, Ear
from training.sentences import sentences
from training.trainer import TrainingRun

HELD_OUT_SEED = 2
SAMPLED = 32  # held-out sentences that are listened to while training


@dataclass(frozen=True)
class EarSettings:
    """Everything that a run depends on.

    Attributes
    ----------
    steps : int
        Length of the whole run; the learning rate falls to nothing over it.
    whole_every : int
        Of so many steps one hears whole windows of 30 s, and
    last : float
        in this share of the steps, at the end, every other one.
    batch, full_batch : int
        Clips in a step on short windows, and on whole ones.
    rate : float
        Highest learning rate.
    warm_up : int
        Steps over which it rises.
    clips : int
        Size of the corpus.
    seed : int
        Of the clips, the first weights, the batches and what is done to them.
    width, heads : int
        Of the model.
    encoder, decoder : int
        Blocks.
    bfloat16 : bool
        Compute in bfloat16, several times faster on a CPU with AMX and on a GPU.
    """

    steps: int = 6000
    whole_every: int = 16
    last: float = 0.12
    batch: int = 24
    full_batch: int = 4
    rate: float = 2.5e-3
    warm_up: int = 300
    clips: int = 8000
    seed: int = 0
    width: int = 120
    heads: int = 6
    encoder: int = 3
    decoder: int = 2
    bfloat16: bool = True

    @property
    def shape(self) -> tuple[int, int, tuple[int, int]]:
        """Width, heads and blocks, as `Ear` takes them."""
        return self.width, self.heads, (self.encoder, self.decoder)


class EarTrainer(TrainingRun):
    """A run of the small ear."""

    learner: Ear

    def __init__(self, settings: EarSettings, clips: Sequence[Clip], device: str = "cpu"):
        if not clips:
            raise InputError("There are no clips to learn from; ask for at least 100.")
        self.clips = sorted(clips, key=lambda clip: clip.mel.shape[1])
        super().__init__(settings, Ear(settings.seed, *settings.shape), device)

    def whole(self) -> bool:
        """Return whether this step hears whole windows."""
        s = self.settings
        every = 2 if self.step >= s.steps * (1 - s.last) else s.whole_every
        return self.step % every == every - 1

    def losses(self) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
        """Return the ear's losses on one batch."""
        s, whole = self.settings, self.whole()
        batch = draw_ear_batch(self.clips, s.full_batch if whole else s.batch, s.seed, self.step, whole)
        terms = self.learner.losses(batch.to(self.device), s.bfloat16)
        return torch.stack([TERMS[name] * value for name, value in terms.items()]).sum(), terms

    def sample(self, folder: Path) -> dict[str, float]:
        """Return the word error rate in voices and of sentences that were held out, on short windows."""
        import jiwer

        clips, ear = held_out_clips(SAMPLED), Ear(0, *self.settings.shape).to(self.device).eval()
        ear.load_state_dict(self.averaged())
        heard: list[str] = []
        for at in range(0, len(clips), 8):
            batch = collate([plain(clip) for clip in clips[at : at + 8]], np.random.default_rng(at))
            heard += ear.listen(batch.mel.to(self.device))
        return {"held_out_wer": float(jiwer.wer([clip.text for clip in clips], heard))}


@cache
def held_out_clips(count: int) -> tuple[Clip, ...]:
    """Return held-out sentences in held-out voices, which take turns."""
    texts = islice(sentences(HELD_OUT_SEED, held_out=True), count)
    voices = HELD_OUT_VOICES
    return tuple(make_clip(text, voices[at % len(voices)], 150, 50) for at, text in enumerate(texts))
