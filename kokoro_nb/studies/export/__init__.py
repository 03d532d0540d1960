"""02: which runtimes take the decoder, and how far they are from PyTorch."""

from kokoro_nb.models.patches import EXPORT_PATCHES
from kokoro_nb.studies.export.decoder_exports import from_har, whole_decoder

__all__ = ["EXPORT_PATCHES", "from_har", "whole_decoder"]
