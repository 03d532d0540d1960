"""11 asks which operators an accelerator takes, which run elsewhere, and why not the rest."""

from kokoro_nb.studies.delegation.npu_nodes import npu_nodes
from kokoro_nb.studies.delegation.partitioners import partitions

__all__ = ["npu_nodes", "partitions"]
