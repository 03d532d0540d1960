"""17 asks which operator is wrong where the runtime shows nothing but the outputs."""

import torch
from torch import nn

from kokoro_nb.backends.base import Failure
from kokoro_nb.backends.executorch.partition import Withholding
from kokoro_nb.backends.exported import export_program
from kokoro_nb.errors import InputError
from kokoro_nb.locate.withholding import Mending, mending
from kokoro_nb.studies.decoder import decoder_program


def withheld_gelu(seed: int) -> Mending:
    """Find the smallest set of operators of a small network whose withholding from XNNPACK makes its output right."""
    torch.manual_seed(seed)
    gelu = nn.GELU(approximate="tanh")
    layers = nn.Sequential(nn.Linear(8, 16), gelu, nn.Linear(16, 16), nn.Tanh(), nn.Linear(16, 4))
    inputs = {"input": torch.randn(4, 8)}
    program = export_program(layers.eval(), inputs)
    if isinstance(program, Failure):
        raise InputError(f"The network cannot be exported: {program}")
    return mending(program, inputs, Withholding("withholding"))
