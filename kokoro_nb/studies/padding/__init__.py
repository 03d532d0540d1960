"""09: what padding does to the valid part of decoder and text, and what exact padding costs on a runtime."""

from kokoro_nb.models.architecture import SAMPLE_RATE
from kokoro_nb.models.speaking import DurationStage
from kokoro_nb.models.static_buffers import widened
from kokoro_nb.studies.decoder import decoder_part
from kokoro_nb.studies.padding.padded_decoder import padded_run
from kokoro_nb.studies.padding.padding_audit import leaks, variances
