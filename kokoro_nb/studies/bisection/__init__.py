"""17 asks which operator is wrong where the runtime shows nothing but the outputs."""

import torch
from torch import nn

from kokoro_nb.inspection import diagnose
from kokoro_nb.locate.diagnosis import Diagnosis
from kokoro_nb.studies.decoder import decoder_program


def withheld_gelu(seed: int) -> Diagnosis:
    """Diagnose a small network on XNNPACK, with what withholding the wrong operator from it does to the output."""
    torch.manual_seed(seed)
    gelu = nn.GELU(approximate="tanh")
    layers = nn.Sequential(nn.Linear(8, 16), gelu, nn.Linear(16, 16), nn.Tanh(), nn.Linear(16, 4))
    return diagnose(layers.eval(), {"input": torch.randn(4, 8)}, "executorch-xnnpack", remedies=True)
