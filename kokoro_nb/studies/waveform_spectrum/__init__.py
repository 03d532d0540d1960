"""04: how each version of one utterance sounds, measured."""

from kokoro_nb.studies.waveform_spectrum.utterance_versions import CUSTOM, FLOOR, PACKAGE, PATCHED, versions

__all__ = ["CUSTOM", "FLOOR", "PACKAGE", "PATCHED", "versions"]
