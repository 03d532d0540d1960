"""Run an ExecuTorch program with its event tracer on: a script of its own, for too small a buffer aborts the process.

``python tracer.py PROGRAM ROOM FOLDER`` reads ``inputs.npz`` in the folder and writes there ``outputs.npz``,
``events.etdump`` and ``tensors.bin``. ROOM is the size of the tracer's buffer in bytes. With ``again`` as a fourth
argument it also writes ``again.npz``: what the second call gives on a program that was loaded without the tracer.
"""

import sys
from pathlib import Path
from typing import Any

import numpy as np

INPUTS, OUTPUTS, AGAIN = "inputs.npz", "outputs.npz", "again.npz"
EVENTS, TENSORS = "events.etdump", "tensors.bin"


def main(program: str, room: str, folder: str, again: str = "") -> None:
    """Run the program once."""
    import torch

    try:  # the extension itself: the module around it imports the exporter, which takes seconds
        from executorch.extension.pybindings._C import _load_for_executorch
    except ImportError:  # of another version
        from executorch.extension.pybindings.portable_lib import _load_for_executorch

    with np.load(Path(folder, INPUTS)) as stored:  # each by its place and its dtype
        inputs = [torch.tensor(stored[name]).to(getattr(torch, name.split("_")[1])) for name in stored.files]
    module = _load_for_executorch(program, enable_etdump=True, debug_buffer_size=int(room))
    results = module.run_method("forward", inputs)
    np.savez(Path(folder, OUTPUTS), *map(_array, results))
    module.write_etdump_result_to_file(str(Path(folder, EVENTS)), str(Path(folder, TENSORS)))
    if again:
        plain = _load_for_executorch(program)
        plain.run_method("forward", inputs)
        np.savez(Path(folder, AGAIN), *map(_array, plain.run_method("forward", inputs)))


def _array(tensor: Any) -> np.ndarray:
    """Return the numbers of a tensor; bfloat16, which NumPy does not have, in float32."""
    return tensor.float().numpy() if str(tensor.dtype) == "torch.bfloat16" else tensor.numpy()


if __name__ == "__main__":
    main(*sys.argv[1:])
