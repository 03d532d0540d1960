"""Faults planted on purpose: what a check must reject before its passing means anything.

At one operator of an exported program: `planting`, which also draws many.
"""

from kokoro_nb.faults.planting import KINDS, Fault, generate, plant, possible

__all__ = ["KINDS", "Fault", "generate", "plant", "possible"]
