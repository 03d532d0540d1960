"""Small images of a tensor: one strip of colour per statistic with a column per channel, and a histogram.

They are PNG, for a report embeds images and keeps no other drawing of a cell, and opaque where they carry colour, so
that they read the same on light and dark pages.
"""

from dataclasses import dataclass
from html import escape
from typing import Any, Literal

import numpy as np

from kokoro_nb.markup import number
from kokoro_nb.reporting.style import NAN_MARK, REFERENCE, colours, encode_png

WIDTH = 720  # pixels
HEIGHT = 18
BINS = 90
TALL = 96

Scale = Literal["finite", "wrong", "signed", "size"]
MAPS = {"finite": "OrRd_r", "wrong": "OrRd", "signed": "RdBu_r", "size": "cividis"}


@dataclass(frozen=True)
class Strip:
    """One statistic of every channel.

    Attributes
    ----------
    name : str
        What it is.
    values : numpy.ndarray, shape=(channels,), float
        NaN where there is none.
    scale : str
        ``finite``, ``wrong``: a share, 0 to 1, red where it is bad; ``signed``: symmetric about 0; ``size``: from 0.
    """

    name: str
    values: np.ndarray
    scale: Scale

    @property
    def limits(self) -> tuple[float, float]:
        """What the first and the last colour stand for."""
        if self.scale in ("finite", "wrong"):
            return 0.0, 1.0
        finite = np.abs(self.values[np.isfinite(self.values)])
        top = float(finite.max(initial=0.0)) or 1.0
        return (-top if self.scale == "signed" else 0.0), top

    @property
    def range(self) -> str:
        """Smallest and largest value, in words."""
        finite = self.values[np.isfinite(self.values)]
        if not finite.size:
            return "not finite"
        low, high = number(finite.min()), number(finite.max())
        return low if low == high else f"{low} to {high}"

    def image(self) -> str:
        """Return it as an element of HTML: a column per channel, the first at the left, hatched where there is none."""
        low, high = self.limits
        values = pooled(self.values, WIDTH, high=self.scale != "finite")
        shares = (values - low) / (high - low)
        pixels = np.asarray(colours(MAPS[self.scale])(np.ma.masked_invalid(shares), bytes=True))[:, :3]
        of_pixel = np.arange(WIDTH) * values.size // WIDTH
        picture = np.repeat(pixels[of_pixel][None], HEIGHT, axis=0)
        picture = np.where(np.isnan(shares)[of_pixel][None, :, None], _hatching(), picture)
        return _element(picture, f"{self.name} by channel: {self.range}", "knb-strip")


def pooled(values: np.ndarray, most: int, high: bool = True) -> np.ndarray:
    """Return so many values at most: where there are more, of neighbours the largest (or smallest), or NaN if any is.

    >>> pooled(np.array([1.0, 5.0, 2.0, np.nan]), 2), pooled(np.arange(3.0), 9)
    (array([ 5., nan]), array([0., 1., 2.]))
    """
    if values.size <= most:
        return values
    edges = np.arange(most) * values.size // most
    return (np.maximum if high else np.minimum).reduceat(values, edges)


def histogram(values: np.ndarray) -> str:
    """Return how often which value occurs, as an element of HTML: `BINS` bars, as high as the logarithm of the count.

    Parameters
    ----------
    values : numpy.ndarray, shape=(n,), real, n > 0
        Finite.
    """
    counts, edges = np.histogram(values.astype(np.float64), BINS)
    heights = np.log1p(counts) / np.log1p(counts.max())
    bar = np.arange(TALL)[::-1, None] < np.ceil(heights * TALL)[None]
    columns = np.repeat(bar, WIDTH // BINS, axis=1)
    columns[:, WIDTH // BINS - 1 :: WIDTH // BINS] = False  # a gap between the bars
    picture = np.zeros((*columns.shape, 4), np.uint8)
    picture[columns] = (*_rgb(REFERENCE), 255)
    about = f"Histogram from {number(edges[0])} to {number(edges[-1])}; the tallest of {BINS} bars: {counts.max()}"
    return _element(picture, about, "knb-histogram")


def channel_statistics(values: np.ndarray) -> dict[str, np.ndarray]:
    """Return share finite, mean and root mean square (of the finite elements, NaN without any) by channel, axis 1."""
    rows = np.moveaxis(values, 1, 0).reshape(values.shape[1], -1)
    finite = np.isfinite(rows)
    sound = np.where(finite, rows, 0).astype(np.complex128 if rows.dtype.kind == "c" else np.float64)
    count = finite.sum(axis=1)
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        share = count / rows.shape[1]
        mean = np.real(sound.sum(axis=1)) / count
        rms = np.sqrt((np.abs(sound) ** 2).sum(axis=1) / count)
    return {"finite": share, "mean": mean, "rms": rms}


def _hatching() -> np.ndarray:
    """Return the mark of what is not finite, shape (HEIGHT, WIDTH, 3), bytes."""
    y, x = np.indices((HEIGHT, WIDTH))
    line = ((x + y) % 6 < 2)[..., None]
    return np.where(line, _rgb(NAN_MARK["edgecolor"]), _rgb(NAN_MARK["facecolor"]))


def _rgb(colour: str) -> Any:
    return np.frombuffer(bytes.fromhex(colour[1:]), np.uint8)


def _element(pixels: np.ndarray, about: str, kind: str) -> str:
    source = encode_png(pixels.astype(np.uint8))
    return f'<img class="{kind}" alt="{escape(about)}" src="data:image/png;base64,{source}">'
