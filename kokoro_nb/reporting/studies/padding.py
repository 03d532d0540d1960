"""09 drawn: naive padding by noise and buffer, and one run as spectrograms."""

from typing import TYPE_CHECKING

from kokoro_nb.models.architecture import SAMPLE_RATE
from kokoro_nb.reporting.charts import heat_map
from kokoro_nb.reporting.drawn import drawn
from kokoro_nb.reporting.figures import stft_spectrograms
from kokoro_nb.studies.padding.padded_decoder import PaddedRun, PaddedRuns

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@drawn.register(PaddedRuns)
def _correlation(result: PaddedRuns, label: str, caption: str) -> "Figure":
    kinds, buckets = (list(dict.fromkeys(getattr(run, key) for run in result.runs)) for key in ("kind", "bucket"))
    cells = [[1 - result.run(kind, bucket).leaking.correlation for bucket in buckets] for kind in kinds]
    title = caption or "Naive padding: 1 - correlation of the valid audio with the unpadded"
    return heat_map(kinds, [f"{bucket} frames" for bucket in buckets], cells, title, label, log=True)


@drawn.register(PaddedRun)
def _spectrograms(result: PaddedRun, label: str, caption: str) -> "Figure":
    names = ("without padding", f"in {result.bucket} frames")
    title = caption or f"Noise '{result.kind}': {result.frames} valid frames"
    return stft_spectrograms(result.plain, result.naive, SAMPLE_RATE, names, title, label)
