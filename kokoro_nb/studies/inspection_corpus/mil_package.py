"""A Core ML package as protobuf and a file of weights, on its way to being changed."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from kokoro_nb.backends.base import quietly
from kokoro_nb.backends.mil.saved_program import WEIGHTS

DTYPES = {"FLOAT32": np.float32, "FLOAT16": np.float16, "INT8": np.int8, "UINT8": np.uint8, "INT32": np.int32}
SENTINEL = 0xDEADBEEF  # at the head of each array in the file of weights


class MilPackage:
    """A package on its way to being changed.

    Parameters
    ----------
    path : path
        A ``.mlpackage``.
    """

    def __init__(self, path: Path) -> None:
        with quietly():
            import coremltools as ct

            self.spec = ct.utils.load_spec(str(path))
        function = self.spec.mlProgram.functions[self.spec.description.defaultFunctionName or "main"]
        self.block = function.block_specializations[function.opset]
        self.file = path / WEIGHTS / "weight.bin"
        self.weights = bytearray(self.file.read_bytes()) if self.file.exists() else bytearray()

    def save(self) -> None:
        """Write it where it lies."""
        model = self.file.parent.parent / "model.mlmodel"
        model.write_bytes(self.spec.SerializeToString())
        if self.weights:
            self.file.write_bytes(bytes(self.weights))

    def array(self, value: Any) -> np.ndarray | None:
        """Return an array in the file of weights, which can be written to; None of what lies elsewhere."""
        from coremltools.proto import MIL_pb2

        about = value.type.tensorType
        name = MIL_pb2.DataType.Name(about.dataType)
        if value.WhichOneof("value") != "blobFileValue" or name not in DTYPES:
            return None
        head = np.frombuffer(self.weights, "<u8", 3, value.blobFileValue.offset)
        assert int(head[0]) & 0xFFFFFFFF == SENTINEL
        dtype = np.dtype(DTYPES[name])
        found = np.frombuffer(self.weights, dtype, int(head[1]) // dtype.itemsize, int(head[2]))
        return found.reshape([one.constant.size for one in about.dimensions])

    def readers(self) -> dict[str, list[Any]]:
        """Return the operations that read each value."""
        found: dict[str, list[Any]] = {}
        for operation in self.block.operations:
            for name in _read(operation):
                found.setdefault(name, []).append(operation)
        return found

    def held(self) -> Iterator[tuple[str, Any]]:
        """Yield the constants: name and value."""
        for operation in self.block.operations:
            if operation.type == "const":
                yield operation.outputs[0].name, operation.attributes["val"]

    def number(self, name: str, value: Any, dtype: str) -> Any:
        """Return an operation that holds one number or text."""
        from coremltools.proto import MIL_pb2

        operation = MIL_pb2.Operation(type="const")
        given = operation.outputs.add()
        given.name = name
        given.type.tensorType.dataType = MIL_pb2.DataType.Value(dtype)
        for key, kind, each in (("name", "STRING", name), ("val", dtype, value)):
            holder = operation.attributes[key]
            holder.type.tensorType.dataType = MIL_pb2.DataType.Value(kind)
            tensor = holder.immediateValue.tensor
            if kind == "FLOAT16":
                tensor.bytes.values = np.float16(each).tobytes()
            else:
                lists = {"STRING": tensor.strings, "FLOAT32": tensor.floats, "INT32": tensor.ints}
                lists[kind].values.append(each)
        return operation

    def put_before(self, operation: Any, *others: Any) -> None:
        """Put operations before one."""
        every = list(self.block.operations)
        place = next(k for k, one in enumerate(every) if one.outputs[0].name == operation.outputs[0].name)
        kept = [*every[:place], *others, *every[place:]]
        copies = [type(one).FromString(one.SerializeToString()) for one in kept]
        del self.block.operations[:]
        self.block.operations.extend(copies)


def _read(operation: Any) -> list[str]:
    return [argument.name for values in operation.inputs.values() for argument in values.arguments]
