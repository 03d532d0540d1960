"""15 asks, of audio that is nothing but NaN, which operator, which channels, why, and which patch makes it right."""

from kokoro_nb.models.architecture import SAMPLE_RATE
from kokoro_nb.studies.tvm_nan.constant_channels import constant_channels

__all__ = ["SAMPLE_RATE", "constant_channels"]
