"""23: what other backends take the decoder, on which rung an export goes wrong, and which patches are enough."""

from kokoro_nb.models.patches import EXPORT_PATCHES
from kokoro_nb.studies.export import from_har
from kokoro_nb.studies.more_backends.patch_sets import patch_sets
from kokoro_nb.studies.more_backends.rungs import ladders_from_har

__all__ = ["EXPORT_PATCHES", "from_har", "ladders_from_har", "patch_sets"]
