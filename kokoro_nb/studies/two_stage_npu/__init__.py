"""06: whether the model that was cut in two, padded and exported is still the model, and whether an NPU takes it."""

from kokoro_nb.delivery.golden import write_golden
from kokoro_nb.delivery.pipeline import TwoStages
from kokoro_nb.listening.transcript import phrases
from kokoro_nb.models.voices import own_voices
from kokoro_nb.studies.two_stage_npu.agreement import against_model, checklist, in_pieces
from kokoro_nb.studies.two_stage_npu.npu_audit import audit_delivery
