"""14 asks which patches each runtime really needs, and how the export fails without each of them."""

from kokoro_nb.studies.repair.patch_trials import norm_trials
from kokoro_nb.studies.repair.smallest_set import repair
from kokoro_nb.studies.repair.uses import uses
