"""02: which runtimes take the decoder, with which patches, and how far they are from PyTorch."""

from kokoro_nb.models.patches import EXPORT_PATCHES
from kokoro_nb.studies.export.decoder_exports import from_har, ladders_from_har, patch_sets, whole_decoder

__all__ = ["EXPORT_PATCHES", "from_har", "ladders_from_har", "patch_sets", "whole_decoder"]
