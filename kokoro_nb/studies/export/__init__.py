"""02: the decoder on every runtime."""

from kokoro_nb.studies.decoder import decoder_part, spectra
