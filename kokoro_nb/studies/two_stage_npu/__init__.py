"""06: whether the model that was cut in two, padded and exported is still the model, and whether an NPU takes it."""

from kokoro_nb.delivery.golden import write_golden
from kokoro_nb.listening.transcript import phrases
from kokoro_nb.studies.two_stage_npu.delivered_model import deliver
from kokoro_nb.studies.two_stage_npu.npu_fit import audit_delivery, on_device
from kokoro_nb.studies.two_stage_npu.spoken_pieces import in_pieces
