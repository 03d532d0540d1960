"""12 asks which kernel of ExecuTorch 0.7.0 made the decoder's output NaN, why, and what of it is left today.

`replays` executes the same trials in the environment with the old version, where it is set up, and in this one.
"""

from kokoro_nb.models.architecture import SAMPLE_RATE
from kokoro_nb.studies.executorch_0_7 import replay_plan as plan
from kokoro_nb.studies.executorch_0_7.replay_record import RIGHT
from kokoro_nb.studies.executorch_0_7.replay_tables import replays

__all__ = ["RIGHT", "SAMPLE_RATE", "plan", "replays"]
