"""The common look of all figures: colours, fonts, the mark of NaN, the label of the weights, and how they are shown.

Figures are made without pyplot, so none is kept alive or shown twice, and no setting leaks into the notebook.
"""

import base64
import io
import math
import re
import struct
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from kokoro_nb.storage import atomic

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.colors import Colormap
    from matplotlib.figure import Figure

# Okabe and Ito (2008): told apart with any kind of colour vision
REFERENCE = "#0072B2"
CANDIDATES = ("#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
FAULT = "#B34700"
INK = "#222222"
FAINT = "#595959"
NAN_MARK: dict[str, Any] = {"facecolor": "#BFF2FF", "edgecolor": "#00647F", "hatch": "////", "linewidth": 0}
"""Drawing options of whatever is NaN or infinite."""
ON_WHITE: dict[str, Any] = {"facecolor": "white", "edgecolor": "none", "pad": 1.5}  # so that no line runs through it
WIDTH = 9.0
DPI = 144  # twice the size at which a page shows it


@contextmanager
def new_figure(height: float, title: str, weights: str) -> Iterator["Figure"]:
    """Yield an empty figure of so many inches to be drawn into, in the style of all: ``notebook.mplstyle``.

    The title stands above and the label of the weights below; an empty one is left out.
    """
    from matplotlib import style
    from matplotlib.figure import Figure

    with style.context("kokoro_nb.reporting.notebook"):
        figure = Figure(figsize=(WIDTH, height), layout="constrained")
        if title:
            figure.suptitle(title, x=0.01, ha="left")
        if weights:
            figure.supxlabel(f"weights: {weights}", x=0.01, ha="left", fontsize=8, color=FAINT)
        yield figure


def colours(name: str) -> "Colormap":
    """Return matplotlib's colour map `name`, see-through at NaN, so that the hatching behind it shows."""
    import matplotlib

    return matplotlib.colormaps[name].with_extremes(bad=(0, 0, 0, 0))


def legend_above(axes: "Axes", handles: "Sequence[Artist]") -> None:
    """Put the legend of `handles` above the right end of `axes`, outside, where it hides nothing."""
    place: dict[str, Any] = {"loc": "lower right", "bbox_to_anchor": (1, 1), "borderpad": 0.2, "borderaxespad": 0.2}
    legend = axes.legend(handles=handles, ncols=3, **place)
    for line in legend.get_lines():
        line.set_linewidth(2.5)


def compact(value: float) -> str:
    """Return `value` to two digits, or to its integer from 100 on, short enough for a label.

    >>> compact(1.25e-07), compact(-250000.0), compact(120), compact(float("-inf")), compact(float("nan"))
    ('1.2e−7', '−2.5e5', '120', '−∞', 'NaN')
    """
    if not math.isfinite(value):
        return "NaN" if math.isnan(value) else "∞" if value > 0 else "−∞"
    text = re.sub(r"e([+-])0?", r"e\1", f"{value:.0f}" if 100 <= abs(value) < 9999.5 else f"{value:.2g}")
    return text.replace("e+", "e").replace("-", "−")


@dataclass(frozen=True)
class Picture:
    """A saved figure; a cell that ends with it shows the PNG file, the same bytes as on disk."""

    path: Path
    alt: str

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
    return Picture(path, alt)


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
