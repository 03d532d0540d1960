"""08: PocketTTS cut into steps, on runtimes and against its own package; and the mistakes of an earlier port."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
from pocket_tts import TTSModel
from torch import Tensor, nn

from kokoro_nb.models.pocket.generation import Utterance
from kokoro_nb.models.pocket.pocket_architecture import NARROW, SEEDED, is_published, load_pocket, load_published
from kokoro_nb.models.pocket.pocket_steps import (
    WholeModel,
    draw_noise,
    eager_steps,
    package_speech,
    utterance,
    voice_prompt,
)
from kokoro_nb.studies.pockettts.bug_effects import BugEffect, effects
from kokoro_nb.studies.pockettts.bugs import BUGS, attempt
from kokoro_nb.studies.pockettts.call_by_call import FirstDifference, first_difference, recorded
from kokoro_nb.studies.pockettts.step_loops import PackageReference, loops, reference

VOICE_SAMPLES = 9600
WHOLE_FRAMES, WHOLE_DRAWS = 16, 8
MISTAKE_FRAMES, SAMPLERS = 12, (1, 2, 8)


@dataclass(frozen=True, eq=False)
class PocketCase:
    """An utterance of PocketTTS: the model, and all that it is given, with noise for each frame.

    Attributes
    ----------
    model : pocket_tts.TTSModel
    label : str
        Label of its weights.
    utterance : Utterance
    seed : int
        Of weights, voice and noise.
    """

    model: TTSModel
    label: str
    utterance: Utterance
    seed: int


def load_case(weights: str, seed: int, text: str, frames: int, sampler: int) -> PocketCase:
    """Build PocketTTS and an utterance of `frames` frames, in a voice of noise.

    Parameters
    ----------
    weights : str
        ``narrow`` or ``seeded`` (random), ``kyutai/pocket-tts`` or the path of a configuration (published); any other
        name is of Kokoro's weights, and stands for ``narrow``.
    seed, frames, sampler : int
        Seed of all that is random, length, and sampler steps for each frame.
    text : str
    """
    own = weights if weights in (NARROW, SEEDED) else NARROW
    model = load_published(weights) if is_published(weights) else load_pocket(own, seed)
    draw = torch.Generator().manual_seed(seed)
    voice = voice_prompt(model, 0.1 * torch.randn(VOICE_SAMPLES, generator=draw))
    spoken = replace(utterance(model, text, voice, seed, sampler), noise=draw_noise(model, frames, seed))
    return PocketCase(model, str(model.weights_label), spoken, seed)


def whole_model(case: PocketCase) -> tuple[nn.Module, list[dict[str, Tensor]], list[int]]:
    """Return the package's own code with its loop as a module, and eight draws of the noise for it.

    Returns
    -------
    module : torch.nn.Module
        Gives the latents, (frames, width), one step of the sampler each.
    inputs : list of dict
        ``ids``, ``voice`` and ``noise``, by name.
    frames : list of int
        How many the package itself makes of each.
    """
    case.model.sampler_decode_steps = 1
    drawn = [draw_noise(case.model, WHOLE_FRAMES, case.seed + i) for i in range(WHOLE_DRAWS)]
    spoken = [replace(case.utterance, sampler=1, noise=noise) for noise in drawn]
    inputs = [{name: torch.from_numpy(getattr(one, name)) for name in ("ids", "voice", "noise")} for one in spoken]
    frames = [len(package_speech(case.model, one).latents) for one in spoken]
    return WholeModel(case.model, case.utterance.after_stop).eval(), inputs, frames


@dataclass(frozen=True, eq=False)
class Mistakes:
    """Each mistake of the earlier port, made on purpose.

    Attributes
    ----------
    frames : int
        Length of the utterance.
    effects : tuple of BugEffect
        What each does, at several settings.
    origins : dict of str to FirstDifference
        Key of `BUGS` -> where the run with the mistake first differs from the one without.
    """

    frames: int
    effects: tuple[BugEffect, ...]
    origins: Mapping[str, FirstDifference]

    def check_rows(self) -> list[dict[str, Any]]:
        """Return a row for each mistake: where it cannot be seen, and the test that sees it."""
        return [{"mistake": bug.title, "invisible at": bug.setting, "seen by": bug.check} for bug in BUGS.values()]

    def origin_rows(self) -> list[dict[str, Any]]:
        """Return a row for each mistake: where the two runs first differ."""
        return [{"mistake": BUGS[name].title, **origin.as_dict()} for name, origin in self.origins.items()]


def mistakes(right: PackageReference, frames: int = MISTAKE_FRAMES) -> Mistakes:
    """Make each mistake by itself in at most `frames` frames, and find the first tensor that differs, call by call."""
    few = replace(right.utterance, noise=right.utterance.noise[:frames])
    tried = attempt(eager_steps(right.modules), right.host, few)
    measured = tuple(row for bug in BUGS.values() for row in effects(bug, tried, SAMPLERS))
    short = replace(tried, utterance=replace(few, sampler=2, noise=few.noise[:1]))
    expected = recorded(short)[1]
    origins = {name: first_difference(expected, recorded(short, bug)[1], right.modules) for name, bug in BUGS.items()}
    return Mistakes(len(few.noise), measured, origins)
