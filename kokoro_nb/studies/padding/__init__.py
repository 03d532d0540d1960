"""09 asks what padding does to the audio that is valid, where it begins, and what it costs to make it exact."""

from kokoro_nb.models.architecture import SAMPLE_RATE
from kokoro_nb.studies.padding.padded_decoder import decoder_in_buffers
from kokoro_nb.studies.padding.padded_runtime import on_runtime
from kokoro_nb.studies.padding.padded_text import text_in_buffer
from kokoro_nb.studies.padding.padding_audit import where_it_begins
