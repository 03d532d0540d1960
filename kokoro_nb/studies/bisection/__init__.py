"""17 asks which operator is wrong where the runtime shows nothing but the outputs."""

from kokoro_nb.studies.bisection.withheld_gelu import withheld_gelu
from kokoro_nb.studies.decoder import decoder_program

__all__ = ["decoder_program", "withheld_gelu"]
