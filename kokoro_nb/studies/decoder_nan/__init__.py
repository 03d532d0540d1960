"""03: whether every operator of the exported decoder is right, and which one is wrong first if not."""

from kokoro_nb.studies.decoder import decoder_program
from kokoro_nb.studies.decoder_nan.parts_alone import parts_alone
from kokoro_nb.studies.decoder_nan.planted_faults import planted_faults
from kokoro_nb.studies.decoder_nan.slices import seen_by_slices

__all__ = ["decoder_program", "parts_alone", "planted_faults", "seen_by_slices"]
