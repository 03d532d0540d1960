"""11: which operators an accelerator takes, which run elsewhere, and why not the rest."""

from kokoro_nb.backends.base import Failure
from kokoro_nb.backends.executorch.partition import partition_map, pieces, shares
from kokoro_nb.backends.qnn.assignment import assignment, legacy_onnx
from kokoro_nb.studies.decoder import decoder_part, decoder_program
