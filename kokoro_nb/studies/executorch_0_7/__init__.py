"""The failure that the workbook began with, replayed: ExecuTorch 0.7.0 in its own environment, and today's beside it.

`run.replay` has one interpreter do it all and returns a `Replay`; one that was recorded earlier is read by
`record.read_replay` where the old environment is not here.
"""

from kokoro_nb.studies.executorch_0_7.old_environment import absent, old_python
from kokoro_nb.studies.executorch_0_7.replay_plan import CONTROLS, LARGE, LAYOUT, NORM, PIECES, TRIALS, Trial
from kokoro_nb.studies.executorch_0_7.replay_record import Outcome, Replay, read_replay, recorded, write_replay
from kokoro_nb.studies.executorch_0_7.replay_run import replay

__all__ = [
    "CONTROLS",
    "LARGE",
    "LAYOUT",
    "NORM",
    "PIECES",
    "TRIALS",
    "Outcome",
    "Replay",
    "Trial",
    "absent",
    "old_python",
    "read_replay",
    "recorded",
    "replay",
    "write_replay",
]
