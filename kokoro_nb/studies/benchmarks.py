"""How fast each export is, and where its time goes: what notebook 19 shows."""

from kokoro_nb.benchmarks.interleaved import AGAIN, this_machine
from kokoro_nb.benchmarks.profiles import profiles
from kokoro_nb.benchmarks.timed_programs import decoder_times, text_to_audio
from kokoro_nb.delivery.pipeline import TwoStages
from kokoro_nb.studies.two_stage_npu.agreement import INPUTS_LIMIT, against_model
