"""Single steps handed to a converter, in our form, in the package's own, and with a length that is free."""

import logging
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from pocket_tts import TTSModel
from torch import Tensor, nn

from kokoro_nb.backends import backend
from kokoro_nb.backends.base import Failure, absence, quietly
from kokoro_nb.backends.exported import export_program
from kokoro_nb.backends.ladder import loaded, outputs_of
from kokoro_nb.models.other_layers import tanh_gelu_written_out
from kokoro_nb.models.pocket.pocket_steps import StepModule, eager_steps
from kokoro_nb.studies.pockettts.call_by_call import StepCall
from kokoro_nb.traces.parity import largest_error


@dataclass(frozen=True)
class ConvertedStep:
    """What became of a step.

    Attributes
    ----------
    absent : str or None
        Why the backend cannot run here; then nothing was tried.
    error : float
        Largest difference to eager PyTorch of any output, of that output's peak.
    """

    failure: Failure | None = None
    absent: str | None = None
    error: float = float("nan")

    def __str__(self) -> str:
        if self.absent:
            return f"SKIP: {self.absent}"
        return str(self.failure) if self.failure else f"converts, {self.error:.1e} of peak"


class PackageStep(nn.Module):
    """The package's own language model for one embedding, only that its state goes in and comes out.

    Parameters
    ----------
    model : pocket_tts.TTSModel
        Its transformer is shared, not copied.
    """

    output_names = ("cache", "position")

    def __init__(self, model: TTSModel):
        super().__init__()
        self.transformer = model.flow_lm.transformer
        names = {module: name for name, module in model.flow_lm.named_modules()}
        self.names = [names[layer.self_attn] for layer in self.transformer.layers]

    def forward(self, embedding: Tensor, cache: Tensor, position: Tensor) -> tuple[Tensor, Tensor]:
        """Read `embedding`: see `models.pocket.flow_and_mimi.ConditioningStep`."""
        kept = [part[:, None].clone() for part in cache]
        state = {name: {"cache": part, "offset": position} for name, part in zip(self.names, kept, strict=True)}
        self.transformer(embedding, state)
        return torch.stack(kept)[:, :, 0], position + 1


def converted(name: str, module: nn.Module, call: StepCall) -> ConvertedStep:
    """Convert `module` to the backend `name` and run it on the inputs of `call`, against eager PyTorch on the same."""
    runtime = backend(name)
    absent = absence(runtime)
    if absent:
        return ConvertedStep(absent=absent)
    with tanh_gelu_written_out():
        exported = export_program(module, call.inputs)
    found = outputs_of(runtime, loaded(runtime, exported, call.inputs), call.inputs)
    if isinstance(found, Failure):
        return ConvertedStep(found)
    expected = eager_steps({"step": StepModule(module, {})})["step"](call.inputs)
    return ConvertedStep(error=largest_error(expected, found))


def flexible(module: nn.Module, call: StepCall) -> str:
    """Convert a conditioning backbone to Core ML with `coremltools.RangeDim` for the number of its tokens.

    Returns
    -------
    str
        ``converts``, or class and text of the error, and the function of coremltools that raised it.
    """
    if backend("coreml").available():
        return f"SKIP: {backend('coreml').available()}"
    tensors = {name: torch.from_numpy(value) for name, value in call.inputs.items()}
    try:
        with quietly(), torch.no_grad(), tanh_gelu_written_out():
            logging.disable(logging.ERROR)  # coremltools logs what it raises; `quietly` sets this back
            trace = torch.jit.trace(module.eval(), tuple(tensors.values()), check_trace=False)
            _convert(trace, tensors)
    except Exception as error:  # whatever a converter raises is the finding
        return f"{type(error).__name__}: {str(error).strip() or 'without a text'} (in {_raised_in(error)})"
    return "converts"


def _convert(trace: Any, tensors: dict[str, Tensor]) -> None:
    import coremltools as ct
    import numpy as np

    free = {"embeddings": (1, ct.RangeDim(1, tensors["embeddings"].shape[1]), tensors["embeddings"].shape[2])}
    ct.convert(
        trace,
        inputs=[
            ct.TensorType(
                name=name,
                shape=free.get(name, tuple(tensor.shape)),
                dtype=np.float32 if tensor.is_floating_point() else np.int32,
            )
            for name, tensor in tensors.items()
        ],
        convert_to="mlprogram",
        minimum_deployment_target=ct.target.iOS17,
        compute_precision=ct.precision.FLOAT32,
        skip_model_load=True,
    )


def _raised_in(error: BaseException) -> str:
    """Return where an error was raised: file and function."""
    place = error.__traceback__
    assert place is not None
    while place.tb_next is not None:
        place = place.tb_next
    code = place.tb_frame.f_code
    return f"{Path(code.co_filename).name}, {code.co_name}"
