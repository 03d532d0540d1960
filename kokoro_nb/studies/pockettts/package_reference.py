"""An utterance by the package's own code and by the steps in eager PyTorch: what runtimes are compared with."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from pocket_tts import TTSModel

from kokoro_nb.models.pocket.generation import Host, Speech, Steps, Utterance, speak
from kokoro_nb.models.pocket.pocket_steps import StepModule, eager_steps, host_of, package_speech, step_modules
from kokoro_nb.studies.pockettts.call_by_call import StepCall, StepRecorder
from kokoro_nb.traces.parity import compare


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
    calls : tuple of StepCall
        Every call of a step in that, and in reading the same one embedding at a time.
    """

    modules: Mapping[str, StepModule]
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


def reference(model: TTSModel, utterance: Utterance, room: int, spare: int = 0) -> PackageReference:
    """Speak `utterance` by the package's own code and by the steps in eager PyTorch.

    Parameters
    ----------
    model : pocket_tts.TTSModel
        See `architecture.load_pocket`.
    utterance : Utterance
        A frame is made for each row of its noise.
    room : int
        Tokens that one call of a step takes.
    spare : int
        Positions of the language model's cache that stay unused.
    """
    frames = len(utterance.noise)
    capacity = utterance.voice.shape[1] + utterance.ids.shape[1] + frames + spare
    host = host_of(model, capacity, frames, room)
    modules = step_modules(model, host)
    endless = replace(host, stop_above=float("inf"))
    found, calls, _ = said(eager_steps(modules), endless, utterance)
    return PackageReference(
        modules,
        endless,
        utterance,
        host.stop_above,
        package_speech(model, utterance, stop=False),
        package_speech(model, utterance),
        found,
        calls,
    )


def said(steps: Steps, host: Host, utterance: Utterance) -> tuple[Speech, tuple[StepCall, ...], float]:
    """Speak it, then read it once more one embedding at a time.

    Returns
    -------
    Speech, tuple of StepCall, float
        What came out of the former, every call of both, and seconds spent in the steps of the former.
    """
    recorder = StepRecorder(steps)
    speech = speak(recorder.steps, host, utterance, watch=recorder.place)
    seconds = sum(call.seconds for call in recorder.calls)
    speak(recorder.steps, host, replace(utterance, noise=utterance.noise[:1]), one_by_one=True, watch=recorder.place)
    return speech, tuple(recorder.calls), seconds


def last_calls(calls: Sequence[StepCall]) -> dict[str, StepCall]:
    """Return the last call of each step."""
    return {call.step: call for call in calls}
