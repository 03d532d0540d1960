"""17 asks which operator is wrong where the runtime shows nothing but the outputs."""

from kokoro_nb.studies.bisection.decoder_part import BisectedPart, decoder_part
from kokoro_nb.studies.bisection.withheld_gelu import withheld_gelu

__all__ = ["BisectedPart", "decoder_part", "withheld_gelu"]
