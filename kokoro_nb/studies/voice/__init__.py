"""How the small voice articulates, against espeak's own speech of the same sentences: formants, confusions, spectra.

The judge is independent of any training in this project: formants come from linear prediction, phonemes are told apart
by a linear discriminant (Fisher, 1936) of mel cepstra that is fitted to espeak's speech alone, and sentences and words
by a recogniser that learnt from people.
"""

from kokoro_nb.studies.voice.confusion import confusions
from kokoro_nb.studies.voice.identification import identifications
from kokoro_nb.studies.voice.recordings import recordings, untrained
from kokoro_nb.studies.voice.spectra import spectral_distances
from kokoro_nb.studies.voice.vowel_formants import vowel_formants

__all__ = ["confusions", "identifications", "recordings", "spectral_distances", "untrained", "vowel_formants"]
