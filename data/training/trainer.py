"""A training run, of the small voice and in general: settings, steps, averaged weights, checkpoints.

The voice's first steps teach the predictor, the text encoder and the decoder's blocks alone, which are a hundred times
cheaper than the generator; then everything learns together. Each step draws its batch and its noise from the seed and
its own number, so that a run that was stopped and resumed is the run that was not.
"""

import json
import math
import signal
import time
from abc import ABC, abstractmethod
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, ClassVar

import torch

from kokoro_nb.errors import InputError
from kokoro_nb.models.weights import read_torch
from kokoro_nb.storage import atomic
from training.corpus import AlignedSentence
from training.learner import Learner, draw_batch, total


@dataclass(frozen=True)
class Settings:
    """Everything that a run depends on.

    Attributes
    ----------
    steps : int
        Length of the whole run; the learning rate falls to nothing over it.
    prelude : int
        Steps at the beginning without the generator.
    batch, window : int
        Sentences in a step, and frames (40 per second) of the window that is cut from each.
    rate : float
        Highest learning rate.
    warm_up : int
        Steps over which it rises.
    sentences : int
        Size of the corpus.
    seed : int
        Of the sentences, the first weights, the batches and the noise.
    width : int or None
        Decoder channels; None takes the architecture's own.
    bfloat16 : bool
        Run the decoder in bfloat16: on a CPU with AMX and on a GPU its convolutions are several times faster.
    compiled : bool
        Compile the generator's blocks.
    """

    steps: int = 9500
    prelude: int = 1500
    batch: int = 6
    window: int = 36
    rate: float = 2e-3
    warm_up: int = 200
    sentences: int = 4000
    seed: int = 0
    width: int | None = None
    bfloat16: bool = True
    compiled: bool = True


AVERAGE = 0.998  # of the weights that are exported, per step
PROSODY_EVERY = 3  # steps after the prelude: the predictor needs fewer than the generator
REPORT_EVERY = 50  # steps
SAMPLE_EVERY = 500
SAVE_EVERY = 150  # seconds


class TrainingRun(ABC):
    """Whatever is trained, its optimiser and averaged weights, and how far it has come.

    Attributes
    ----------
    history : list of dict
        ``step``, ``rate`` and the mean of each loss since the line before.
    """

    betas: ClassVar[tuple[float, float]] = (0.9, 0.98)
    clip: ClassVar[float] = 1.0  # gradient norm

    def __init__(self, settings: Any, learner: torch.nn.Module, device: str):
        self.settings, self.device = settings, device
        self.learner = learner.to(device).train()
        parameters = {n: p for n, p in self.learner.named_parameters() if p.requires_grad}
        decayed = [p for p in parameters.values() if p.dim() > 1]
        others = [p for p in parameters.values() if p.dim() <= 1]
        self.optimiser = torch.optim.AdamW(
            [{"params": decayed, "weight_decay": 0.01}, {"params": others, "weight_decay": 0.0}],
            lr=settings.rate,
            betas=self.betas,
        )
        self.trained = parameters
        self.average = {name: p.detach().clone() for name, p in parameters.items()}
        self.step, self.seconds = 0, 0.0
        self.history: list[dict[str, float]] = []

    @abstractmethod
    def losses(self) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
        """Return the loss of this step and the terms that it is made of."""

    @abstractmethod
    def sample(self, folder: Path) -> dict[str, float]:
        """Measure what the run has come to on what was held out, for the log; write examples to `folder`."""

    def rate(self) -> float:
        """Return the learning rate of this step: a linear rise, then half a cosine."""
        s = self.settings
        done = min(self.step / max(s.steps, 1), 1.0)
        return s.rate * min((self.step + 1) / s.warm_up, 1.0) * (0.01 + 0.99 * 0.5 * (1 + math.cos(math.pi * done)))

    def advance(self) -> dict[str, float]:
        """Take one step and return its losses."""
        started = time.monotonic()
        torch.manual_seed(self.settings.seed * 1_000_003 + self.step)  # the source's noise
        loss, terms = self.losses()
        if not torch.isfinite(loss):
            raise InputError(f"The loss is {loss.item()} at step {self.step}; resume with a lower --rate.")
        for group in self.optimiser.param_groups:
            group["lr"] = self.rate()
        self.optimiser.zero_grad(set_to_none=True)
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(self.trained.values(), self.clip)
        self.optimiser.step()
        self.step += 1
        keep = min(AVERAGE, (1 + self.step) / (10 + self.step))
        torch._foreach_lerp_(list(self.average.values()), [p.detach() for p in self.trained.values()], 1 - keep)
        self.seconds += time.monotonic() - started
        return {name: value.item() for name, value in terms.items()} | {"norm": norm.item()}

    def state(self) -> dict[str, Any]:
        """Return all that `restore` needs."""
        return {
            "settings": asdict(self.settings),
            "learner": self.learner.state_dict(),
            "optimiser": self.optimiser.state_dict(),
            "average": self.average,
            "step": self.step,
            "seconds": self.seconds,
            "history": self.history,
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Go on from `state`."""
        self.learner.load_state_dict(state["learner"])
        self.optimiser.load_state_dict(state["optimiser"])
        for name, value in self.average.items():
            value.copy_(state["average"][name])
        self.step, self.seconds, self.history = state["step"], state["seconds"], list(state["history"])

    def averaged(self) -> dict[str, torch.Tensor]:
        """Return the learner's state with the averaged weights in place of the last ones."""
        return self.learner.state_dict() | self.average


class Trainer(TrainingRun):
    """A run of the small voice."""

    betas = (0.8, 0.99)
    clip = 10.0
    learner: Learner

    def __init__(self, settings: Settings, corpus: list[AlignedSentence], device: str = "cpu"):
        self.corpus = sorted(corpus, key=lambda u: int(u.durations.sum()))
        shortest = int(self.corpus[0].durations.sum())
        if shortest < settings.window:
            raise InputError(f"The shortest sentence has {shortest} frames; use a window no longer than that.")
        super().__init__(settings, Learner(settings.seed, settings.width), device)
        if settings.compiled:
            self.learner.compile_blocks()

    def losses(self) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
        """Return the decoder's losses on windows, and now and then the predictor's on sentences."""
        s, prelude = self.settings, self.step < self.settings.prelude
        batch = draw_batch(self.corpus, 2 * s.batch if prelude else s.batch, s.window, s.seed, self.step)
        batch = batch.to(self.device)
        terms = self.learner.sound(batch, s.bfloat16, generate=not prelude)
        if prelude or self.step % PROSODY_EVERY == 0:
            terms |= self.learner.prosody(batch)
        return total(terms), terms

    def sample(self, folder: Path) -> dict[str, float]:
        """Write audio, and return the mean distances from espeak."""
        from training.samples import voice_of, write_samples

        return write_samples(voice_of(self.learner.config, self.averaged()), self.step, folder)


def save_checkpoint(trainer: TrainingRun, folder: Path) -> None:
    """Write ``checkpoint.pt``, whole or not at all."""
    with atomic(folder / "checkpoint.pt") as draft:
        torch.save(trainer.state(), draft)


def load_checkpoint(folder: Path) -> dict[str, Any]:
    """Read ``checkpoint.pt``.

    Raises
    ------
    InputError
        If there is none, or it is damaged or holds more than tensors and numbers.
    """
    path = folder / "checkpoint.pt"
    if not path.exists():
        raise InputError(f"There is no checkpoint in {folder}; leave out --resume, or name the folder with --out.")
    return read_torch(path)


def train(trainer: TrainingRun, folder: Path) -> bool:
    """Run to the end, or until SIGTERM or SIGINT: then save and return False.

    Parameters
    ----------
    trainer : TrainingRun
    folder : Path
        Where the checkpoint, ``log.jsonl`` and every 500 steps the samples go.
    """
    from tqdm import tqdm

    folder.mkdir(parents=True, exist_ok=True)
    asked: list[int] = []
    before = {s: signal.signal(s, lambda number, _: asked.append(number)) for s in (signal.SIGTERM, signal.SIGINT)}
    sums: dict[str, list[float]] = {}
    saved = time.monotonic()
    try:
        with tqdm(total=trainer.settings.steps, initial=trainer.step, mininterval=10, unit="step") as bar:
            while trainer.step < trainer.settings.steps and not asked:
                for name, value in trainer.advance().items():
                    sums.setdefault(name, []).append(value)
                bar.update()
                if trainer.step % REPORT_EVERY == 0:
                    line = {"step": trainer.step, "seconds": round(trainer.seconds, 1), "rate": trainer.rate()}
                    line |= {name: sum(values) / len(values) for name, values in sums.items()}
                    sums.clear()
                    if trainer.step % SAMPLE_EVERY == 0:
                        line |= trainer.sample(folder)
                    trainer.history.append(line)
                    with (folder / "log.jsonl").open("a", encoding="utf-8") as log:
                        log.write(json.dumps(line) + "\n")
                    bar.set_postfix({k: f"{v:.3g}" for k, v in line.items() if k not in ("step", "seconds", "rate")})
                if time.monotonic() - saved > SAVE_EVERY:
                    save_checkpoint(trainer, folder)
                    saved = time.monotonic()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    save_checkpoint(trainer, folder)
    return not asked
