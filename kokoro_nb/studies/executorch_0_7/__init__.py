"""12 asks which kernel of ExecuTorch 0.7.0 made the decoder's output NaN, why, and what of it is left today.

Both versions executed the same trials once; `replays` reads what was recorded of either.
"""

from kokoro_nb.studies.executorch_0_7 import replay_plan as plan
from kokoro_nb.studies.executorch_0_7.replay_record import RIGHT
from kokoro_nb.studies.executorch_0_7.replay_tables import replays
