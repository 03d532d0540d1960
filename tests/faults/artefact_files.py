"""A fault in the file that a backend has written, behind everybody's back: a weight that is not the model's."""

from collections.abc import Callable
from pathlib import Path

import numpy as np


def edit_onnx_weight(path: str | Path, name: str, change: Callable[[np.ndarray], np.ndarray]) -> None:
    """Change one float32 weight inside the ONNX file at `path`; `change` gets a copy and returns one of its shape."""
    import onnx
    from onnx import numpy_helper

    model = onnx.load(str(path))
    (tensor,) = (one for one in model.graph.initializer if one.name == name)
    changed = np.asarray(change(numpy_helper.to_array(tensor).copy()), np.float32, order="C")
    assert list(changed.shape) == list(tensor.dims)
    tensor.CopyFrom(numpy_helper.from_array(changed, name))
    Path(path).write_bytes(model.SerializeToString())
