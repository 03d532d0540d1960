"""05: whether a speech recogniser hears the same words in every version, and which faults it misses."""

from kokoro_nb.delivery.decoded import speak_all
from kokoro_nb.listening.transcript import spoken_texts
from kokoro_nb.studies.whisper.audible_faults import FAULTS, noticed_by
from kokoro_nb.studies.whisper.known_sentences import known_sentences
from kokoro_nb.studies.whisper.transcripts import listener, rate_row, timing_rows
