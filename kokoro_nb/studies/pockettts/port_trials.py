"""The eleven trials that a port of PocketTTS took, each executed: what its log says, and what happens today.

The log is that of a Core ML port (FluidInference/mobius, ``models/tts/pocket_tts/coreml/TRIALS.md``, trials 1 to 11; it
goes on from there). It was written on pocket-tts 1.0, on a Mac, with published weights; what it ran is built here from
its description, on this version of the package and on random weights.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from pocket_tts import TTSModel

from kokoro_nb.models.pocket import flow_and_mimi
from kokoro_nb.models.pocket.bugs import BUGS, Attempt, attempt
from kokoro_nb.models.pocket.flow_and_mimi import OtherConditioningStep
from kokoro_nb.models.pocket.generation import speak
from kokoro_nb.models.pocket.pocket_steps import StepModule, eager_steps
from kokoro_nb.studies.pockettts.bug_effects import effect
from kokoro_nb.studies.pockettts.conversions import PackageStep, converted, flexible
from kokoro_nb.studies.pockettts.package_reference import PackageReference, last_calls
from kokoro_nb.studies.pockettts.whole_model import WholeConversion
from kokoro_nb.traces.parity import compare, largest_error

SAMPLER = 8  # the log's
CORRECTED = (1, 2, 8, 9)  # tracing succeeds today, ONNX takes scatter, padding can be exact, and attention was not it


@dataclass(frozen=True)
class PortTrial:
    """One trial.

    Attributes
    ----------
    tried, log : str
        What was tried, and what the log says came of it, in our words.
    mended : str
        What mends it, or corrects the log.
    """

    number: int
    tried: str
    log: str
    today: str
    agrees: bool
    mended: str

    @property
    def claim(self) -> str:
        """What has to be so today, as a sentence."""
        goes = "does not go as the log says, for a known reason" if self.number in CORRECTED else "goes as the log says"
        return f"Trial {self.number}, {self.tried}, {goes}."

    @property
    def holds(self) -> bool:
        """Whether it is."""
        return self.agrees != (self.number in CORRECTED)

    def as_dict(self) -> dict[str, Any]:
        """Return the row of a table."""
        return {
            "trial": self.number,
            "tried": self.tried,
            "the log": self.log,
            "today": self.today,
            "as logged": "yes" if self.agrees else "no",
            "what mends or corrects it": self.mended,
        }


def trials(
    model: TTSModel,
    right: PackageReference,
    whole: Sequence[WholeConversion],
    name: str = "coreml-reference-float32",
) -> tuple[PortTrial, ...]:
    """Execute all of them.

    Parameters
    ----------
    right : PackageReference
        An utterance with a voice and spare room in the last call of ``conditioning``.
    whole : sequence of WholeConversion
        What `whole.whole_model` returned.
    name : str
        Backend to which single steps are converted: the log's is Core ML.
    """
    said = attempt(eager_steps(right.modules), right.host, right.utterance)
    return (
        _trace(whole),
        _onnx(model, right, whole),
        _submodels(model, right, name),
        _backbone(4, model, right, name, right.host.room),
        _range_dim(model, right),
        _backbone(6, model, right, name, _roomy(right)),
        _times(said),
        _padding(right, said),
        _other_attention(model, right, said),
        _same_attention(model, said),
        _order(said),
    )


def _trace(whole: Sequence[WholeConversion]) -> PortTrial:
    traced = whole[0]
    return PortTrial(
        1,
        "the whole model, by torch.jit.trace",
        "fails: tracing cannot capture the loop and its end",
        traced.outcome,
        traced.failure is not None,
        "a trace keeps the loop of its example: compare the number of frames on other noise, and export steps instead",
    )


def _onnx(model: TTSModel, right: PackageReference, whole: Sequence[WholeConversion]) -> PortTrial:
    step = flow_and_mimi.FlowLmStep(model, "scatter")
    scattered = converted("onnxruntime", step, last_calls(right.calls)["language"])
    return PortTrial(
        2,
        "the whole model to ONNX",
        "fails on the same control flow, and on the scatter of the cache",
        f"tracing exporter: {whole[1].outcome}; torch.export: {whole[2].outcome}; a step with scatter: {scattered}",
        whole[1].failure is not None and scattered.failure is not None,
        "as 1; the scatter by itself is no obstacle",
    )


def _submodels(model: TTSModel, right: PackageReference, name: str) -> PortTrial:
    calls = last_calls(right.calls)
    parts = {part: converted(name, right.modules[part].module, calls[part]) for part in ("text", "flow")}
    stateful = converted(name, PackageStep(model), calls["conditioning step"])
    listed = "; ".join(f"{part}: {found}" for part, found in parts.items())
    return PortTrial(
        3,
        "text encoder, flow, Mimi and stop as models of their own",
        "parts convert; caches and order stay in PyTorch",
        f"{listed}; the package's own transformer with its state: {stateful}",
        stateful.failure is not None and all(found.failure is None for found in parts.values()),
        "state as inputs and outputs, position as a tensor, the whole cache read under a mask",
    )


def _backbone(number: int, model: TTSModel, right: PackageReference, name: str, room: int) -> PortTrial:
    call = last_calls(right.calls)["conditioning"]
    spare = room - call.inputs["embeddings"].shape[1]
    roomy = np.pad(call.inputs["embeddings"], [(0, 0), (0, spare), (0, 0)])
    given = replace(call, inputs={**call.inputs, "embeddings": roomy})
    found = converted(name, flow_and_mimi.ConditioningBackbone(model), given)
    return PortTrial(
        number,
        f"many tokens at once, room for {'some' if number == 4 else 'all'} ({room})",
        "converts; shorter input has to be padded with zeros, which spoils the cache (trial 8)",
        f"{int(call.inputs['length'][0])} tokens in room for {room}: {found}",
        found.failure is None,
        "the true length as an input, by which alone the position moves: padding is exact",
    )


def _range_dim(model: TTSModel, right: PackageReference) -> PortTrial:
    call = last_calls(right.calls)["conditioning"]
    scatter, one_hot = (
        flexible(flow_and_mimi.ConditioningBackbone(model, write), call) for write in ("scatter", "one_hot")
    )
    return PortTrial(
        5,
        "the same with coremltools' RangeDim",
        "fails with an AssertionError in scatter_along_axis",
        f"scatter: {scatter}; product with a one-hot matrix: {one_hot}",
        "AssertionError" in scatter and one_hot == "converts",
        "write the cache by a product with a one-hot matrix",
    )


def _times(said: Attempt) -> PortTrial:
    many = replace(said, utterance=replace(said.utterance, sampler=SAMPLER))
    one = replace(said, utterance=replace(said.utterance, sampler=1))
    zero, single = (effect(BUGS["start_at_zero"], given, "") for given in (many, one))
    early = effect(BUGS["end_off_by_one"], many, "")
    return PortTrial(
        7,
        "times of the flow: start fixed at 0, end one step early",
        "gibberish, though the transformer's outputs match",
        f"latents off by {zero.latents.of_peak:.2g} and {early.latents.of_peak:.2g} of peak at {SAMPLER} steps, "
        f"the cache after reading by {zero.read.of_peak:.2g}; the first by {single.latents.of_peak:.2g} at 1",
        zero.latents.of_peak > 1e-3 and early.latents.of_peak > 1e-3 and zero.read.max_error == 0,
        "both times as inputs of the step; compare at more than one sampler step",
    )


def _padding(right: PackageReference, said: Attempt) -> PortTrial:
    first = replace(said, utterance=replace(said.utterance, noise=said.utterance.noise[:1]))
    counted = effect(BUGS["padding_counted"], first, "").latents.of_peak
    exact = compare(right.package.latents, right.steps.latents).of_peak
    return PortTrial(
        8,
        "conditioning padded with zeros",
        "cannot work: LayerNorm and feed-forward offsets make keys and values of zeros",
        f"first latent off by {counted:.2g} of peak with the position advanced, all by {exact:.2g} without",
        not (exact <= 1e-5 and counted >= 1e-3),
        "it can: the position moves by the true length",
    )


def _other_attention(model: TTSModel, right: PackageReference, said: Attempt) -> PortTrial:
    call = last_calls(right.calls)["conditioning step"]
    equal = _apart(OtherConditioningStep(model), call)
    spoilt = BUGS["nan_cache"].apply(replace(said, host=replace(said.host, stop_above=right.stop_above))).speak()
    limit = len(right.utterance.noise)
    return PortTrial(
        9,
        "one token at a time, attention written another way, no NaN handling",
        "speaks the wrong words and stops after 21 frames: NaN from the cache",
        f"on a finite cache equal to {equal:.2g} of peak; on a cache of NaN {np.isnan(spoilt.stops).mean():.0%} of the "
        f"logits are NaN and it never stops ({len(spoilt.latents)} of {limit} frames)",
        not (equal <= 1e-5 and np.isnan(spoilt.stops).all()),
        "what stops and says words had no NaN in it: it was the order (trial 11)",
    )


def _same_attention(model: TTSModel, said: Attempt) -> PortTrial:
    brief = replace(said.utterance, noise=said.utterance.noise[:1])
    other = eager_steps({"conditioning step": StepModule(OtherConditioningStep(model), {})})
    first, second = (
        speak(steps, said.host, brief, said.embeddings, one_by_one=True).read["cache"]
        for steps in (said.steps, {**said.steps, **other})
    )
    found = compare(first, second).of_peak
    return PortTrial(
        10,
        "the same with the attention of the step that was right",
        "speaks the same wrong words",
        f"after all of voice and text the two forms have written the same cache: {found:.2g} of peak apart",
        found < 1e-5,
        "so attention was not it, as the log finds one trial later",
    )


def _order(said: Attempt) -> PortTrial:
    found = effect(BUGS["text_first"], said, "")
    return PortTrial(
        11,
        "voice before text, not after",
        "text first: cache off by 4.3 to 9.1, cosine 0.60 to 0.90; voice first 7e-6, and speech",
        f"text first: cache off by {found.read.max_error:.2g}, correlation {found.read.correlation:.2f}; latents "
        f"{found.latents.of_peak:.2g} of peak",
        found.read.max_error > 1,
        "voice, then text; compare the cache after reading with the package's",
    )


def _apart(module: Any, call: Any) -> float:
    step = eager_steps({"step": StepModule(module, {})})["step"]
    return largest_error(call.outputs, step(call.inputs))


def _roomy(right: PackageReference) -> int:
    """Return room for all that is read."""
    return right.utterance.voice.shape[1] + right.utterance.ids.shape[1] + 9  # as many to spare as in the log
