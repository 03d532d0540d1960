"""Figures of notebook 18: the vowels in the plane of F2 and F1, and which phonemes are taken for which."""

from typing import TYPE_CHECKING, Any

import numpy as np

from kokoro_nb.reporting.show import drawn
from kokoro_nb.reporting.style import CANDIDATES, REFERENCE, WIDTH, new_figure, style
from kokoro_nb.studies.voice.confusion import Confusions
from kokoro_nb.studies.voice.vowel_formants import VowelFormants

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_CORNERS = ((5, 5), (5, -13), (-14, 5), (-14, -13))  # of a point's label, points


@drawn.register(VowelFormants)
def vowel_plane(result: VowelFormants, label: str = "", caption: str = "") -> "Figure":
    """Draw the vowels of each voice, each from espeak's place to the model's."""
    voices = result.deviations
    with style():
        caption = caption or "Vowels: espeak (blue dot) and the model (orange cross)"
        figure = new_figure(WIDTH, 4.4, caption, label)
        for axes, voice in zip(figure.subplots(1, len(voices)), voices, strict=True):
            for place, v in enumerate(v for v in result.vowels if v.voice == voice):
                corner: Any = _CORNERS[place % len(_CORNERS)]
                axes.plot(*np.stack([v.reference, v.model]).T[::-1], color="0.4")
                axes.plot(*v.reference[::-1], "o", color=REFERENCE, markersize=5)
                axes.plot(*v.model[::-1], "x", color=CANDIDATES[0], markersize=6)
                axes.annotate(v.vowel, v.reference[::-1], corner, textcoords="offset points", fontsize=11)
            axes.set(title=voice, xlabel="F2 (Hz)", ylabel="F1 (Hz)")
            axes.invert_xaxis()
            axes.invert_yaxis()
    return figure


@drawn.register(Confusions)
def confusion_matrices(result: Confusions, label: str = "", caption: str = "") -> "Figure":
    """Draw the shares of espeak's phonemes and of the model's that are taken for each phoneme."""
    said, recognised = result.spoken, result.recognised
    with style():
        figure = new_figure(WIDTH, 4.8, caption or "Rows: what was said, columns: what it was taken for", label)
        named = {"espeak (ceiling)": result.ceiling, "model": result.model}
        for axes, (name, one) in zip(figure.subplots(1, 2), named.items(), strict=True):
            image = axes.imshow(one.matrix(said, recognised), cmap="cividis", vmin=0, vmax=1)
            axes.set_xticks(range(len(recognised)), recognised, fontsize=6)
            axes.set_yticks(range(len(said)), said, fontsize=6)
            axes.set_title(f"{name}: {one.accuracy:.1%} right")
        figure.colorbar(image, ax=figure.axes, label="share of the row", shrink=0.6)
    return figure
