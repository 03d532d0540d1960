"""17: a part of the decoder, in which faults are planted."""

from kokoro_nb.studies.decoder import decoder_program
