"""12 asks which kernel of ExecuTorch 0.7.0 made the decoder's output NaN, why, and what of it is left today.

`make replay` diagnosed the parts of ``data/replay/targets.py`` with either version; the records lie beside them.
"""

from pathlib import Path

from kokoro_nb.cache_keys import DATA
from kokoro_nb.traces.record import read_record

WEIGHTS = "narrow (random, seed 0)"


def files(name: str) -> tuple[Path, Path]:
    """Return the record of ExecuTorch 0.7.0 and today's of one target."""
    return DATA / "replay" / "executorch_0_7" / f"{name}.json", DATA / "replay" / "today" / f"{name}.json"
