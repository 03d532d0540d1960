"""A replay by another interpreter, in a process of its own."""

import os
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from kokoro_nb.backends.signature import as_array
from kokoro_nb.errors import InputError
from kokoro_nb.storage import write_json
from kokoro_nb.studies.executorch_0_7.replay_plan import TRIALS, ReplayTrial
from kokoro_nb.studies.executorch_0_7.replay_record import Replay, read_replay

REQUEST, INPUTS, ANSWER, AUDIO = "request.json", "inputs.npz", "answer.json", "audio.npy"
WORKER = "kokoro_nb.studies.executorch_0_7.replay_worker"


def replay(
    python: str | Path,
    weights: str,
    seed: int,
    inputs: Mapping[str, Any],
    trials: Sequence[ReplayTrial] = TRIALS,
    search: bool = True,
    folder: str | Path | None = None,
) -> tuple[Replay, np.ndarray | None]:
    """Have `python` execute the trials with the PyTorch and the ExecuTorch that it has.

    It runs this very package, which has to be able to import there.

    Parameters
    ----------
    python : path
        Interpreter of an environment that has executorch, torch and kokoro.
    weights, seed
        As for `load_model`.
    inputs : mapping
        Inputs of `stages.DecoderStage` by name, and ``har``: so both versions are given the same numbers.
    search : bool
        Whether the block of `plan.SYMPTOM` is searched for its first wrong norm.
    folder : path, optional
        For artefacts; ``artefacts`` in the cache by default.

    Returns
    -------
    Replay
        What was found.
    numpy.ndarray or None, shape (samples,), float32, 24 kHz
        Audio of the first call of `plan.SOUND`, full scale 1; None if it was not among the trials.

    Raises
    ------
    InputError
        If there is no such interpreter.
    RuntimeError
        If the process fails; with what it printed.
    """
    if not Path(python).is_file():
        raise InputError(f"There is no interpreter at {python}; give the path of one.")
    with tempfile.TemporaryDirectory() as room:
        request = {
            "weights": weights,
            "seed": seed,
            "trials": [asdict(trial) for trial in trials],
            "search": search,
            "folder": None if folder is None else str(Path(folder).resolve()),
        }
        write_json(Path(room, REQUEST), request)
        arrays: dict[str, Any] = {name: as_array(name, value) for name, value in inputs.items()}
        np.savez(Path(room, INPUTS), **arrays)
        _run(Path(python), room)
        audio = Path(room, AUDIO)
        return read_replay(Path(room, ANSWER), recorded=False), np.load(audio) if audio.exists() else None


def _run(python: Path, room: str) -> None:
    # -P: the working directory is no place to import from; the same copy of this package, installed there or not
    command = [str(python), "-P", "-W", "ignore", "-m", WORKER, room]
    places = [str(Path(__file__).parents[3]), *filter(None, [os.environ.get("PYTHONPATH")])]
    programs = [str(python.parent), *filter(None, [os.environ.get("PATH")])]  # ExecuTorch calls `flatc` by its name
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(places), "PATH": os.pathsep.join(programs)}
    environment["TORCHINDUCTOR_COMPILE_THREADS"] = "1"  # PyTorch 2.8 starts processes to compile in, for nothing
    done = subprocess.run(command, capture_output=True, text=True, errors="replace", env=environment, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"The replay by {python.name} ended with {done.returncode}: {done.stderr.strip()}")
