"""10 asks what today's converters, runtimes and debugging tools get wrong by themselves, and which form is right."""

from kokoro_nb.studies.upstream_defects.defects_today import defects_today
from kokoro_nb.studies.upstream_defects.patch_surveys import norms_on_tvm, phase_on_coreml

__all__ = ["defects_today", "norms_on_tvm", "phase_on_coreml"]
