"""14: which patches a runtime needs."""

from kokoro_nb.studies.repair.smallest_set import repair
