"""Faults in the file that a backend has written, behind everybody's back: a weight that is not the model's."""

import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

Change = Callable[[np.ndarray], np.ndarray]

_WEIGHTS = Path("Data/com.apple.CoreML/weights/weight.bin")
_MODEL = Path("Data/com.apple.CoreML/model.mlmodel")
# of coremltools' blob file (mlmodel/src/MILBlob/Blob/StorageFormat.hpp): sentinel, dtype, bytes, offset of the data
_HEADER = struct.Struct("<IIQQ")
_SENTINEL = 0xDEADBEEF


def edit_onnx_weight(path: str | Path, name: str, change: Change) -> None:
    """Change one float32 weight inside the ONNX file at `path`; `change` gets a copy and returns one of its shape."""
    from onnx import numpy_helper

    model = _onnx(path)
    tensor = _initialisers(model)[name]
    tensor.CopyFrom(numpy_helper.from_array(_changed(numpy_helper.to_array(tensor), change), name))
    Path(path).write_bytes(model.SerializeToString())


def edit_mlpackage_weight(path: str | Path, name: str, change: Change) -> None:
    """Change one float32 weight inside the ``.mlpackage`` at `path`, and nothing else in it: see `edit_onnx_weight`."""
    shape, offset = _blobs(Path(path))[name]
    raw = bytearray((Path(path) / _WEIGHTS).read_bytes())
    sentinel, _, size, start = _HEADER.unpack_from(raw, offset)
    assert sentinel == _SENTINEL
    weight = np.frombuffer(raw, np.float32, size // 4, start).reshape(shape)
    raw[start : start + size] = _changed(weight, change).tobytes()
    (Path(path) / _WEIGHTS).write_bytes(raw)


def _onnx(path: str | Path) -> Any:
    import onnx

    return onnx.load(str(path))


def _initialisers(model: Any) -> dict[str, Any]:
    import onnx

    return {one.name: one for one in model.graph.initializer if one.data_type == onnx.TensorProto.FLOAT}


def _blobs(path: Path) -> dict[str, tuple[tuple[int, ...], int]]:
    """Return shape of each constant and the place of its header in the file of weights."""
    from coremltools.proto import MIL_pb2

    found = {}
    for operation in _operations(path):
        value = operation.attributes["val"] if operation.type == "const" else None
        if value is None or value.WhichOneof("value") != "blobFileValue":
            continue
        kind = value.type.tensorType
        if kind.dataType == MIL_pb2.DataType.FLOAT32:
            shape = tuple(dimension.constant.size for dimension in kind.dimensions)
            found[operation.outputs[0].name] = shape, value.blobFileValue.offset
    return found


def _operations(path: Path) -> Iterator[Any]:
    """Yield every operation of the program in an ``.mlpackage``."""
    from coremltools.proto import Model_pb2

    model = Model_pb2.Model()
    model.ParseFromString((path / _MODEL).read_bytes())
    for function in model.mlProgram.functions.values():
        for block in function.block_specializations.values():
            yield from block.operations


def _changed(weight: np.ndarray, change: Change) -> np.ndarray:
    changed = np.asarray(change(weight.copy()), np.float32, order="C")
    assert changed.shape == weight.shape
    return changed
