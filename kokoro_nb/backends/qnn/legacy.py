"""ONNX by tracing, `torch.onnx.export(dynamo=False)`: the way of older ports, for what `torch.export` refuses."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from kokoro_nb.backends.base import Failure, RungError, on_rung, quietly
from kokoro_nb.backends.signature import Arrays, call_arguments, example_inputs
from kokoro_nb.backends.snapshot import snapshot
from kokoro_nb.errors import InputError


def legacy_onnx(module: Any, inputs: Arrays, path: str | Path) -> Path | Failure:
    """Trace `module` and write it as ONNX, with the exporter's own choice of opset.

    Parameters
    ----------
    module : torch.nn.Module
        Any module; traced in evaluation mode and without gradients, from a copy, under the patches that are on.
    inputs : mapping
        Name of a parameter of its forward -> example tensor.
    path : path
        The file to write, in a folder that exists.

    Returns
    -------
    Path or Failure
        The failure's rung is ``lowered``.

    Raises
    ------
    InputError
        If the inputs do not fit the module, or there is no such folder.
    """
    import torch

    arrays = example_inputs(module, inputs)
    if not Path(path).parent.is_dir():
        raise InputError(f"There is no folder {Path(path).parent}; make it first.")
    try:
        with on_rung("lowered"), quietly(), _output_as_errors(), torch.no_grad():
            twin = snapshot(module)
            args, kwargs = call_arguments(twin, {name: torch.from_numpy(array) for name, array in arrays.items()})
            torch.onnx.export(twin, args, str(path), kwargs=kwargs, dynamo=False, input_names=list(arrays))
    except RungError as error:
        return error.failure("torch.onnx")
    return Path(path)


@contextmanager
def _output_as_errors() -> Iterator[None]:
    """Have file descriptor 1 go where 2 goes: when it fails, the tracer prints its whole graph there, past Python."""
    output = os.dup(1)
    os.dup2(2, 1)
    try:
        yield
    finally:
        os.dup2(output, 1)
        os.close(output)
