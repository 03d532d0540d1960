"""03: every operator of the decoder, planted faults, and each part of the decoder alone."""

from kokoro_nb.studies.decoder import decoder_part, decoder_program
