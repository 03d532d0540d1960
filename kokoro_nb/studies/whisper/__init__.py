"""05: whether a speech recogniser hears the same words in every version, and which faults it misses."""

from kokoro_nb.listening.transcript import spoken_texts
from kokoro_nb.studies.whisper.known_faults import known_faults
from kokoro_nb.studies.whisper.phrase_versions import known_sentences, phrase_versions
from kokoro_nb.studies.whisper.transcripts import listen
