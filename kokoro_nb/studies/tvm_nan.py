"""15: the decoder with channels that hardly vary, on TVM."""

from kokoro_nb.models.architecture import SAMPLE_RATE
from kokoro_nb.studies.decoder import decoder_program, with_constant_channels
