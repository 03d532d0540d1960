"""The level of the inverse STFT of Core ML packages mended: its weights are scaled where they lie in the file."""

from pathlib import Path

import numpy as np

from kokoro_nb.backends.mil.saved_program import WEIGHTS, load_program
from kokoro_nb.delivery.clients import fluidaudio_client, kokoro_coreml_client
from kokoro_nb.delivery.clients.client_contract import ClientContract
from kokoro_nb.delivery.clients.inverse_level import BINS, WINDOW, InverseLevel
from kokoro_nb.delivery.clients.mlpackage_check import first_utterance
from kokoro_nb.delivery.clients.staged_signal_check import last_stage, stage_level
from kokoro_nb.errors import InputError

BLOB = WEIGHTS / "weight.bin"


def rescale_packages(root: Path, rules: ClientContract) -> tuple[str, InverseLevel, InverseLevel]:
    """Scale the weights of the last stage, in all of its sizes by what the smallest shows.

    Returns
    -------
    tuple
        What was changed, and the level before and after, measured on the same text.

    Raises
    ------
    InputError
        If there is no inverse STFT to be seen, or its weights are not in the file as they are used.
    """
    before, changed = _level(root, rules), 0
    sizes = [kokoro_coreml_client.frame_stages(size)[-1] for size in kokoro_coreml_client.SECONDS]
    for name in (name for name in (fluidaudio_client.TAIL, *sizes) if (root / name).is_dir()):
        changed += _rescale(root / name, before)
    return f"{changed} weights of the inverse STFT scaled", before, _level(root, rules)


def _level(root: Path, rules: ClientContract) -> InverseLevel:
    host, said = first_utterance(root, rules)
    level = stage_level(host, last_stage(host, said), said)
    if level is None:
        raise InputError(f"There is no inverse STFT to be seen in {root}; its level cannot be mended.")
    return level


def _rescale(package: Path, level: InverseLevel) -> int:
    scale = np.array([1 / level.ends, *[1 / level.middle] * (BINS - 2), 1 / level.ends])[:, None, None]
    blob, changed = (package / BLOB).read_bytes(), 0
    for operation in load_program(package).program.functions["main"].operations:
        weight = operation.inputs.get("weight") if operation.op_type == "conv_transpose" else None
        if weight is None or weight.val is None or weight.val.shape != (BINS, 1, WINDOW):
            continue
        values = np.ascontiguousarray(weight.val)
        if blob.count(values.tobytes()) != 1:
            raise InputError(f"The weights of the inverse STFT are not in {package.name} as they are used.")
        blob = blob.replace(values.tobytes(), (values * scale).astype(values.dtype).tobytes())
        changed += 1
    (package / BLOB).write_bytes(blob)
    return changed
