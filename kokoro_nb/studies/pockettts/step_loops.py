"""The steps and the loop on a runtime: each step by itself, in closed loop, and the utterance against the package's."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
import torch
from pocket_tts import TTSModel
from torch import Tensor, nn

from kokoro_nb.backends import backend
from kokoro_nb.backends.base import Failure, Program, absence
from kokoro_nb.backends.exported import Exported, export_program
from kokoro_nb.backends.ladder import loaded, outputs_of
from kokoro_nb.backends.signature import Arrays, as_array
from kokoro_nb.models.pocket import pocket_steps
from kokoro_nb.models.pocket.generation import Host, Speech, Step, Steps, Utterance, Values, speak
from kokoro_nb.models.pocket.pocket_architecture import NARROW, SEEDED, is_published, load_pocket, load_published
from kokoro_nb.traces.statistics import Parity, compare, largest_error

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


@dataclass(frozen=True)
class StepCall:
    """One call of a step, as the step itself saw it; its place is where in the loop it stands: ``frame 3: flow 1``."""

    place: str
    step: str
    inputs: Values
    outputs: Values


class StepRecorder:
    """Steps that record each of their calls.

    Attributes
    ----------
    steps : dict
        The same, recorded.
    calls : list of StepCall
        In order.
    """

    def __init__(self, steps: Steps):
        self.calls: list[StepCall] = []
        self.steps = {name: partial(self._called, name, step) for name, step in steps.items()}

    def _called(self, name: str, step: Step, inputs: Values) -> Values:
        outputs = step(inputs)
        before = [call.step for call in self.calls]
        place, frame = f"{name} {before.count(name)}", before.count("language")
        if name == "language":
            place = f"frame {frame}: language"
        elif name in ("flow", "mimi"):
            count = f" {before[::-1].index('language')}" if name == "flow" else ""
            place = f"frame {frame - 1}: {name}{count}"
        self.calls.append(StepCall(place, name, inputs, outputs))
        return outputs


@dataclass(frozen=True)
class PackageReference:
    """An utterance by the package's own code and by the steps in eager PyTorch.

    Attributes
    ----------
    modules, host, utterance
        What spoke it; the host ignores the end of speech.
    stop_above : float
        Logit above which speech ends for a host that does.
    package : Speech
        The package's own, a frame for each row of the noise.
    ended : Speech
        The package's own, ended by the model.
    steps : Speech
        By the steps in eager PyTorch, a frame for each row of the noise.
    calls : tuple of StepCall
        Every call of a step in that, and in reading the same one embedding at a time.
    """

    modules: Mapping[str, pocket_steps.StepModule]
    host: Host
    utterance: Utterance
    stop_above: float
    package: Speech
    ended: Speech
    steps: Speech
    calls: tuple[StepCall, ...]

    def apart(self) -> dict[str, float]:
        """Return how far the steps are from the package's own code, by tensor: largest difference, of its peak.

        Of the language model's caches what is written.
        """
        theirs, mine = self.package, self.steps
        read, end = (int(state["position"][0]) for state in (theirs.read, theirs.language))
        pairs = {
            "position after reading": (theirs.read["position"], mine.read["position"]),
            "KV cache after reading": tuple(one.read["cache"][:, :, :read] for one in (theirs, mine)),
            "latents": (theirs.latents, mine.latents),
            "logits of the stop": (theirs.stops, mine.stops),
            "audio": (theirs.frames, mine.frames),
            "position": (theirs.language["position"], mine.language["position"]),
            "KV cache": tuple(one.language["cache"][:, :, :end] for one in (theirs, mine)),
            **{f"Mimi: {name}": (value, mine.decoder[name]) for name, value in theirs.decoder.items()},
        }
        return {name: compare(*pair).of_peak for name, pair in pairs.items()}


def reference(model: Any, utterance: Utterance, room: int) -> PackageReference:
    """Speak `utterance` by the package's own code and by the steps in eager PyTorch.

    Parameters
    ----------
    model : pocket_tts.TTSModel
    utterance : Utterance
        A frame is made for each row of its noise.
    room : int
        Tokens that one call of a step takes, and positions of the language model's cache that stay unused.
    """
    frames = len(utterance.noise)
    capacity = utterance.voice.shape[1] + utterance.ids.shape[1] + frames + room
    host = pocket_steps.host_of(model, capacity, frames, room)
    modules = pocket_steps.step_modules(model, host)
    endless = replace(host, stop_above=float("inf"))
    package, ended = (pocket_steps.package_speech(model, utterance, stop) for stop in (False, True))
    spoken = _said(pocket_steps.eager_steps(modules), endless, utterance)
    return PackageReference(modules, endless, utterance, host.stop_above, package, ended, *spoken)


def _said(steps: Steps, host: Host, utterance: Utterance) -> tuple[Speech, tuple[StepCall, ...]]:
    """Speak it, then read it once more one embedding at a time; return what came out, and every call of both."""
    recorder = StepRecorder(steps)
    speech = speak(recorder.steps, host, utterance)
    speak(recorder.steps, host, replace(utterance, noise=utterance.noise[:1]), one_by_one=True)
    return speech, tuple(recorder.calls)


@dataclass(frozen=True)
class RuntimeLoop:
    """The loop on one backend.

    Attributes
    ----------
    backend : str
    absent : str or None
        Why it cannot run here.
    failures : dict
        Where the export or the run of a step failed.
    own, chained : dict
        Step -> on the inputs of its last call in the reference, and over all calls of the closed loop, each on what
        this backend gave before: largest difference of any output, of that output's peak.
    latents, audio : Parity or None
        Of the closed loop, against the package's own; None where a step failed.
    ended : Parity or None
        Latents of the utterance that was ended by the model; None where that is elsewhere.
    frames : int
        Of that utterance; 0 where none was spoken.
    """

    backend: str
    absent: str | None = None
    failures: Mapping[str, Failure] = field(default_factory=dict)
    own: Mapping[str, float] = field(default_factory=dict)
    chained: Mapping[str, float] = field(default_factory=dict)
    latents: Parity | None = None
    audio: Parity | None = None
    ended: Parity | None = None
    frames: int = 0

    @property
    def failure(self) -> Failure | None:
        """The first step that failed."""
        return next(iter(self.failures.values()), None)

    def as_dict(self) -> dict[str, Any]:
        """Return the row of a table, with units in its keys."""
        row: dict[str, Any] = {"backend": self.backend}
        if self.latents is None or self.audio is None:
            return {**row, "outcome": f"SKIP: {self.absent}" if self.absent else str(self.failure)}
        row |= {"outcome": "runs", "latents (of peak)": self.latents.of_peak, "audio (of peak)": self.audio.of_peak}
        ended = self.ended.max_error if self.ended else "another length"
        return {**row, "frames until the stop": self.frames, "latents until the stop: largest difference": ended}

    def step_rows(self) -> list[dict[str, Any]]:
        """Return a row for each step that runs, with units in its keys."""
        both = {"by itself (of peak)": self.own, "in closed loop (of peak)": self.chained}
        return [
            {"step": step, "backend": self.backend, **{key: each[step] for key, each in both.items() if step in each}}
            for step in dict.fromkeys([*self.own, *self.failures])
        ]


def loops(right: PackageReference, backends: Sequence[str]) -> dict[str, RuntimeLoop]:
    """Run every step by itself, and the loop of all steps, on each of `backends`."""
    exported = {name: export_program(step.module, step.inputs) for name, step in right.modules.items()}
    return {name: loop_on(name, right, exported) for name in backends}


def loop_on(name: str, right: PackageReference, exported: Mapping[str, Exported | Failure]) -> RuntimeLoop:
    """Take every step to the backend `name`, and speak the utterance there with nothing but the steps and NumPy."""
    runtime = backend(name)
    if absent := absence(runtime):
        return RuntimeLoop(name, absent)
    programs = {step: loaded(runtime, made, right.modules[step].inputs) for step, made in exported.items()}
    last = {call.step: call for call in right.calls}
    alone = {step: outputs_of(runtime, program, last[step].inputs) for step, program in programs.items()}
    failures = {step: found for step, found in alone.items() if isinstance(found, Failure)}
    own = {s: largest_error(last[s].outputs, found) for s, found in alone.items() if not isinstance(found, Failure)}
    if failures:
        return RuntimeLoop(name, failures=failures, own=own)
    steps = {s: _fed_back(made, right.modules[s]) for s, made in programs.items() if not isinstance(made, Failure)}
    found, calls = _said(steps, right.host, right.utterance)
    errors: dict[str, list[float]] = {}
    for expected, call in zip(right.calls, calls, strict=True):
        errors.setdefault(call.step, []).append(largest_error(expected.outputs, call.outputs))
    chained = {step: float(np.max(each)) for step, each in errors.items()}
    ended = speak(steps, replace(right.host, stop_above=right.stop_above), right.utterance)
    same = ended.latents.shape == right.ended.latents.shape
    return RuntimeLoop(
        name,
        own=own,
        chained=chained,
        latents=compare(right.package.latents, found.latents),
        audio=compare(right.package.audio, found.audio),
        ended=compare(right.ended.latents, ended.latents) if same else None,
        frames=len(ended.latents),
    )


def _fed_back(program: Program, step: pocket_steps.StepModule) -> Callable[[Arrays], dict[str, np.ndarray]]:
    """Return a step that takes what it gave: the positions that come out of Core ML are int32."""
    dtypes = {name: as_array(name, value).dtype for name, value in step.inputs.items()}
    return lambda inputs: program.run(
        {name: as_array(name, value).astype(dtypes[name]) for name, value in inputs.items()}
    )
