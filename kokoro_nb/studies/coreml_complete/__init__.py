"""07: what the Core ML file computes, where float16 breaks it, and which operators have to stay float32."""

from kokoro_nb.studies.coreml_complete.complete_model import complete_model
from kokoro_nb.studies.coreml_complete.decoder_precision import convert_decoder, harmonic_source
from kokoro_nb.studies.coreml_complete.replacements import replaced_classes
