"""PNG: a figure as a notebook saves and shows it, and small images that are embedded in a page."""

import base64
import io
import struct
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

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


def encode_png(pixels: NDArray[np.uint8], palette: NDArray[np.uint8] | None = None) -> str:
    """Return an image as PNG in base64.

    Parameters
    ----------
    pixels : numpy.ndarray, shape=(height, width, 3 or 4), uint8
        Colours; with a palette, shape=(height, width), their numbers in it.
    palette : numpy.ndarray, shape=(colours, 3), uint8, optional
        Red, green and blue.
    """
    from PIL import Image

    image = Image.fromarray(pixels, None if palette is None else "P")
    if palette is not None:
        image.putpalette(palette.tobytes())
    buffer = io.BytesIO()
    image.save(buffer, "PNG", optimize=True)
    return base64.b64encode(buffer.getvalue()).decode()
