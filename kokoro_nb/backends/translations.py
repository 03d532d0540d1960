"""Torch's translations of operators to ONNX, read once; the file is the same to the byte.

At each export torch parses the source of some 500 functions, one for each operator, to learn what they take: a quarter
of a second, whatever is exported.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

_read: dict[int, Any] = {}  # by opset


@contextmanager
def translations_read_once() -> Iterator[None]:
    """Have torch's exporter begin with a copy of the translations that it has read before; for the whole process."""
    from torch.onnx._internal.exporter._registration import ONNXRegistry

    read = ONNXRegistry.from_torchlib

    def from_torchlib(_: Any, opset_version: int) -> Any:
        if opset_version not in _read:
            _read[opset_version] = read(opset_version)
        copy = ONNXRegistry()
        copy._opset_version = opset_version
        copy.functions = {target: list(functions) for target, functions in _read[opset_version].functions.items()}
        return copy

    with patch.object(ONNXRegistry, "from_torchlib", classmethod(from_torchlib)):
        yield
