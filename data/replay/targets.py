"""What `make replay` diagnoses in two environments: parts of the decoder with random weights, 8 frames, and a norm."""

from typing import Any

import torch

from kokoro_nb.models.case import capture
from kokoro_nb.models.kokoro import load_model
from kokoro_nb.studies.decoder import decoder_program

TEXT = "Hello world, this is a test."
AS_IT_IS = ("explicit_noise", "custom_stft")  # without these two there is no export at all


def norm() -> Any:
    """Return an instance norm with numbers of its own, as many as a record holds."""
    draw = torch.Generator().manual_seed(0)
    return torch.nn.InstanceNorm1d(4), {"input": torch.randn(1, 4, 16, generator=draw)}


def block() -> Any:
    """Return the decoder's first block, which holds two norms."""
    return _part("encode")


def block_written_out() -> Any:
    """Return the same with the norm written out as means, differences and a square root."""
    return _part("encode", "two_pass_norm")


def inverse() -> Any:
    """Return the inverse transform at the decoder's end."""
    return _drawn(_part("stft inverse"))


def inverse_contiguous() -> Any:
    """Return the same with its weights copied, so that they are no view."""
    return _drawn(_part("stft inverse", "contiguous_istft"))


def _drawn(part: Any) -> Any:
    """Return a part with inputs that no PyTorch computed: a phase near a branch cut is another one on each."""
    program, inputs = part
    draw = torch.Generator().manual_seed(0)
    return program, {name: torch.rand(value.shape, generator=draw) for name, value in inputs.items()}


def _part(name: str, *patches: str) -> Any:
    kokoro = load_model("narrow")
    program = decoder_program(kokoro.model, capture(kokoro, TEXT), 8, name, (*AS_IT_IS, *patches))
    return program.program, dict(program.inputs)
