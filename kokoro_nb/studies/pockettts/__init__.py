"""08: PocketTTS cut into steps, on runtimes and against its own package; and the mistakes of an earlier port."""

from dataclasses import dataclass, replace

import torch
from pocket_tts import TTSModel
from torch import Tensor, nn

from kokoro_nb.models.pocket import pocket_steps
from kokoro_nb.models.pocket.generation import Utterance
from kokoro_nb.models.pocket.pocket_architecture import NARROW, SEEDED, is_published, load_pocket, load_published
from kokoro_nb.studies.pockettts.port_mistakes import mistakes
from kokoro_nb.studies.pockettts.step_loops import loops, reference

VOICE_SAMPLES = 9600
WHOLE_FRAMES, WHOLE_DRAWS = 16, 8


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
    voice = pocket_steps.voice_prompt(model, 0.1 * torch.randn(VOICE_SAMPLES, generator=draw))
    spoken = pocket_steps.utterance(model, text, voice, seed, sampler)
    spoken = replace(spoken, noise=pocket_steps.draw_noise(model, frames, seed))
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
    drawn = [pocket_steps.draw_noise(case.model, WHOLE_FRAMES, case.seed + i) for i in range(WHOLE_DRAWS)]
    spoken = [replace(case.utterance, sampler=1, noise=noise) for noise in drawn]
    inputs = [{name: torch.from_numpy(getattr(one, name)) for name in ("ids", "voice", "noise")} for one in spoken]
    frames = [len(pocket_steps.package_speech(case.model, one).latents) for one in spoken]
    return pocket_steps.WholeModel(case.model, case.utterance.after_stop).eval(), inputs, frames
