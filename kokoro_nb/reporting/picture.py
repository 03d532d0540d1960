"""A figure as a notebook keeps and shows it: one PNG file."""

import base64
import struct
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kokoro_nb.reporting.style import DPI
from kokoro_nb.storage import atomic


@dataclass(frozen=True)
class Picture:
    """A saved figure; a cell that ends with it shows the PNG file, the same bytes as on disk."""

    path: Path
    alt: str
    figure: Any = field(repr=False)

    def _repr_mimebundle_(self, **_: Any) -> tuple[dict[str, str], dict[str, dict[str, Any]]]:
        png = self.path.read_bytes()
        width, height = struct.unpack(">II", png[16:24])  # the PNG header's first chunk
        about = {"width": width // 2, "height": height // 2, "alt": self.alt}
        return {"image/png": base64.b64encode(png).decode(), "text/plain": self.alt}, {"image/png": about}


def save(figure: Any, path: Path, alt: str, weights: str) -> Picture:
    """Write a matplotlib figure to `path` with the label of its weights in it, and close it in pyplot."""
    from matplotlib import pyplot

    with atomic(path) as draft:
        figure.savefig(draft, format="png", dpi=DPI, bbox_inches="tight", metadata={"Description": weights})
    pyplot.close(figure)  # it would be shown a second time
    return Picture(path, alt, figure)
