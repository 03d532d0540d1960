"""The whole of PocketTTS handed to a converter, loop and all: what comes of it, and how many frames that then makes."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import torch
from pocket_tts import TTSModel

from kokoro_nb.backends.base import Failure, RungError, on_rung, quietly
from kokoro_nb.backends.exported import export_program
from kokoro_nb.models.pocket.generation import Utterance
from kokoro_nb.models.pocket.pocket_steps import WholeModel, package_speech


@dataclass(frozen=True)
class WholeConversion:
    """What became of the whole model on one way.

    Attributes
    ----------
    expected, found : tuple of int
        Frames by the package and by what was converted, for each utterance; the first is the one it was converted on.
    """

    way: str
    failure: Failure | None = None
    expected: tuple[int, ...] = ()
    found: tuple[int, ...] = ()

    def wrong(self) -> int:
        """Return how many utterances are of the wrong length; all of them where nothing was converted."""
        if not self.found:
            return len(self.expected)
        return sum(one != other for one, other in zip(self.expected, self.found, strict=True))

    @property
    def outcome(self) -> str:
        """What came of it, in words."""
        if self.failure:
            return str(self.failure)
        return f"converted; frames {', '.join(map(str, self.found))} where the package makes " + ", ".join(
            map(str, self.expected)
        )


def whole_model(model: TTSModel, utterances: Sequence[Utterance]) -> tuple[WholeConversion, ...]:
    """Convert the whole model on the first utterance, and speak the others by what came out.

    Parameters
    ----------
    model : pocket_tts.TTSModel
        See `architecture.load_pocket`.
    utterances : sequence of Utterance
        Of the same shapes: other noise, other words of as many tokens, another voice of the same length.

    Returns
    -------
    tuple of WholeConversion
        By `torch.jit.trace`, by torch's tracing exporter to ONNX, and by `torch.export`, on which the newer one stands.
    """
    module = WholeModel(model, utterances[0].after_stop).eval()
    before, model.sampler_decode_steps = model.sampler_decode_steps, utterances[0].sampler
    expected = tuple(len(package_speech(model, one).latents) for one in utterances)
    try:
        return (
            replace(_traced(module, utterances), expected=expected),
            replace(_onnx(module, utterances), expected=expected),
            _exported(module, utterances[0]),
        )
    finally:
        model.sampler_decode_steps = before


def _traced(module: WholeModel, utterances: Sequence[Utterance]) -> WholeConversion:
    way = "torch.jit.trace"
    try:
        with on_rung("lowered"), quietly(), torch.no_grad():
            trace = torch.jit.trace(module, _tensors(utterances[0]), check_trace=False)
        with on_rung("run"), quietly(), torch.no_grad():
            return WholeConversion(way, found=tuple(len(trace(*_tensors(one))) for one in utterances))
    except RungError as error:
        return WholeConversion(way, error.failure(way))


def _onnx(module: WholeModel, utterances: Sequence[Utterance]) -> WholeConversion:
    way = "torch.onnx.export(dynamo=False)"
    names = ["ids", "voice", "noise"]
    try:
        with TemporaryDirectory() as folder:
            path, given = str(Path(folder) / "model.onnx"), _tensors(utterances[0])
            with on_rung("lowered"), quietly():
                torch.onnx.export(module, given, path, dynamo=False, input_names=names, opset_version=18)
            with on_rung("run"), quietly():
                return WholeConversion(way, found=tuple(len(_run_onnx(path, names, one)) for one in utterances))
    except RungError as error:
        return WholeConversion(way, error.failure(way))


def _run_onnx(path: str, names: Sequence[str], utterance: Utterance) -> np.ndarray:
    import onnxruntime

    session = onnxruntime.InferenceSession(path)
    taken = {node.name for node in session.get_inputs()}  # what the trace made a constant of is no input any more
    given = dict(zip(names, (tensor.numpy() for tensor in _tensors(utterance)), strict=True))
    return session.run(None, {name: value for name, value in given.items() if name in taken})[0]


def _exported(module: WholeModel, utterance: Utterance) -> WholeConversion:
    made = export_program(module, dict(zip(("ids", "voice", "noise"), _tensors(utterance), strict=True)))
    return WholeConversion("torch.export", made if isinstance(made, Failure) else None)


def _tensors(utterance: Utterance) -> tuple[torch.Tensor, ...]:
    return tuple(torch.from_numpy(array) for array in (utterance.ids, utterance.voice, utterance.noise))
