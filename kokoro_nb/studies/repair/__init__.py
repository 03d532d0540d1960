"""14: the smallest set of patches that a backend needs."""

from kokoro_nb.studies.repair.smallest_set import repair

__all__ = ["repair"]
