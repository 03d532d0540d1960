"""What the interpreter of either environment does of a replay: this module, executed with the name of a folder.

It reads ``request.json`` and ``inputs.npz`` in the folder and writes ``answer.json`` there. Everything here has to run
on ExecuTorch 0.7.0 with PyTorch 2.8.0 as well as on the versions that this project pins.
"""

import platform
import sys
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

import numpy as np

from kokoro_nb.backends.base import Failure, quietly
from kokoro_nb.models.kokoro import load_model
from kokoro_nb.storage import read_json
from kokoro_nb.studies.executorch_0_7.norm_search import search
from kokoro_nb.studies.executorch_0_7.replay_plan import SOUND, SYMPTOM, ReplayTrial
from kokoro_nb.studies.executorch_0_7.replay_record import Replay, write_replay
from kokoro_nb.studies.executorch_0_7.replay_run import ANSWER, AUDIO, INPUTS, REQUEST
from kokoro_nb.studies.executorch_0_7.replay_trials import ReplayBench, execute, predicted

PACKAGES = ("executorch", "torch", "kokoro", "numpy")


def main(folder: Path) -> None:
    """Answer the request in `folder`."""
    import torch

    request = read_json(folder / REQUEST, "request")
    with np.load(folder / INPUTS) as stored:
        inputs = {name: torch.tensor(stored[name]) for name in stored.files}
    with quietly():
        kokoro = load_model(request["weights"], request["seed"])
    bench = ReplayBench(kokoro, inputs, Path(request["folder"]) if request["folder"] else None)
    outcomes = []
    for row in request["trials"]:
        trial = ReplayTrial(**{**row, "patches": tuple(row["patches"])})
        outcome, first = execute(bench, trial)
        outcomes.append(outcome)
        if trial == SOUND and first is not None:
            np.save(folder / AUDIO, first.reshape(-1))
    found = Replay(
        versions={"python": platform.python_version(), **{name: version(name) for name in PACKAGES}},
        machine=f"{platform.system()} {platform.machine()}",
        date=datetime.now(UTC).date().isoformat(),
        weights=kokoro.weights.label,
        frames=inputs["asr"].shape[-1] if "asr" in inputs else 0,
        outcomes=tuple(outcomes),
        predicted=predicted(bench),
        search=_searched(bench) if request["search"] else {},
    )
    write_replay(folder / ANSWER, found)


def _searched(bench: ReplayBench) -> dict[str, object]:
    exported, inputs = bench.exported(SYMPTOM)
    if isinstance(exported, Failure):
        return {}
    return search(exported, inputs, SYMPTOM.backend, bench.folder)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
