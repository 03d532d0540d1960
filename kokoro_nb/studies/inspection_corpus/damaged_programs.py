"""Archives that are larger than they may be, and programs of the other formats that cannot be run.

Each function takes the path of a healthy file and a number, and returns the path to inspect.
"""

import json
import shutil
import struct
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from kokoro_nb.backends.base import quietly
from kokoro_nb.studies.inspection_corpus.damaged_bytes import main_part

BOMB = 8 * 2**30  # bytes that a few kilobytes become when unpacked
HUGE = 2**40  # elements, or bytes
CHUNK = 2**24


def bomb(path: Path, number: int) -> Path:
    """Add a member to an archive that becomes 8 GB, and says so; or says that it has 1,000 bytes.

    A package, which is a folder, is put in an archive first.
    """
    if path.is_dir():
        shutil.make_archive(str(path), "zip", path)
        shutil.rmtree(path)
        path.with_name(f"{path.name}.zip").rename(path)
    with zipfile.ZipFile(path) as archive:
        members = {one.filename: archive.read(one) for one in archive.infolist()}
    first = next((name for name in members if "weight" in name), next(iter(members)))
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in members.items():
            if name != first:
                archive.writestr(name, data)
        _write_bomb(archive, first, BOMB if number == 0 else 1000)
    return path


def _write_bomb(archive: zipfile.ZipFile, name: str, stated: int) -> None:
    """Write zeros that were compressed once, again and again: a stream may be joined at each full flush."""
    pack = zlib.compressobj(9, zlib.DEFLATED, -15)
    piece = pack.compress(b"\0" * CHUNK) + pack.flush(zlib.Z_FULL_FLUSH)
    stream = piece * (BOMB // CHUNK) + pack.flush(zlib.Z_FINISH)
    entry = zipfile.ZipInfo(name)
    entry.compress_type = zipfile.ZIP_STORED
    archive.writestr(entry, stream)
    written = archive.getinfo(name)  # stored as it is, then called what it is
    written.compress_type, written.file_size = zipfile.ZIP_DEFLATED, stated
    assert archive.fp is not None
    end = archive.fp.tell()
    archive.fp.seek(written.header_offset + 8)
    archive.fp.write(struct.pack("<H", zipfile.ZIP_DEFLATED))
    archive.fp.seek(written.header_offset + 22)
    archive.fp.write(struct.pack("<L", min(stated, 2**32 - 1)))
    archive.fp.seek(end)


def member_missing(path: Path, number: int) -> Path:
    """Leave out a member of an archive: its weights, or its graph."""
    part = ("weight_0", "model.json")[number]
    return _members(path, lambda members: {name: data for name, data in members.items() if not name.endswith(part)})


def torch_weights_of_nan(path: Path, number: int) -> Path:
    """Fill the weights of a program of PyTorch with NaN."""

    def change(members: dict[str, bytes]) -> dict[str, bytes]:
        nan = np.float32(np.nan).tobytes()
        return {name: nan * (len(data) // 4) if "/weight_" in name else data for name, data in members.items()}

    return _members(path, change)


def torch_graph_changed(path: Path, number: int) -> Path:
    """Name an operator that there is not, a weight of 2**40 elements, or another type of the input."""

    def change(members: dict[str, bytes]) -> dict[str, bytes]:
        name = next(one for one in members if one.endswith("models/model.json"))
        graph = json.loads(members[name])
        module = graph["graph_module"]["graph"]
        if number == 0:
            module["nodes"][-1]["target"] = "torch.ops.aten.frobnicate.default"
        values = list(module["tensor_values"].values())
        if number == 1:
            values[0]["sizes"] = [{"as_int": HUGE}]
        if number == 2:
            for value in values:
                value["dtype"] = 4
        return members | {name: json.dumps(graph).encode()}

    return _members(path, change)


def _members(path: Path, change: Callable[[dict[str, bytes]], dict[str, bytes]]) -> Path:
    with zipfile.ZipFile(path) as archive:
        members = {one.filename: archive.read(one) for one in archive.infolist()}
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in change(members).items():
            archive.writestr(name, data)
    return path


def package_weights_missing(path: Path, number: int) -> Path:
    """Take away the weights of a package."""
    _weights(path).unlink()
    return path


def package_weights_shorter(path: Path, number: int) -> Path:
    """Cut off the weights of a package."""
    weights = _weights(path)
    weights.write_bytes(weights.read_bytes()[:500])
    return path


def package_weights_without_end(path: Path, number: int) -> Path:
    """Say of each weight that it has 2**40 bytes; then have a file as large as that, of holes."""
    weights = _weights(path)
    data = bytearray(weights.read_bytes())
    place = 0
    while (place := data.find(struct.pack("<L", 0xDEADBEEF), place)) >= 0:
        data[place + 8 : place + 16] = struct.pack("<Q", HUGE)
        place += 8
    weights.write_bytes(bytes(data))
    if number == 1:
        with weights.open("r+b") as file:
            file.truncate(16 * 2**30)
    return path


def package_program_changed(path: Path, number: int) -> Path:
    """Name an operator that there is not, a version from the future, an input of 2**40, or what it reads itself."""
    with quietly():
        import coremltools as ct
    part = main_part(path)
    spec = ct.utils.load_spec(str(part))
    (function,) = spec.mlProgram.functions.values()
    (block,) = function.block_specializations.values()
    if number == 0:
        block.operations[-1].type = "frobnicate"
    if number == 1:
        spec.specificationVersion = 9999
    if number == 2:
        dimension = function.inputs[0].type.tensorType.dimensions[-1]
        dimension.constant.size = HUGE
    if number == 3:
        last = next(one for one in reversed(block.operations) if "x" in one.inputs)
        last.inputs["x"].arguments[0].name = last.outputs[0].name
    if number == 4:
        spec.ClearField("mlProgram")
        spec.neuralNetwork.layers.add(name="a").activation.ReLU.SetInParent()
    part.write_bytes(spec.SerializeToString())
    return path


def executorch_program_changed(path: Path, number: int) -> Path:
    """Name an operator that there is not, a tensor of 2**40, a value that there is not, or jump back without end."""
    with quietly():
        from executorch.exir import schema
        from executorch.exir._serialize._program import deserialize_pte_binary, serialize_pte_binary

        file = deserialize_pte_binary(path.read_bytes())
        plan = file.program.execution_plan[0]
        instructions: Any = plan.chains[0].instructions
        if number == 0:
            plan.operators[-1].name = "aten::frobnicate"
        if number == 1:
            plan.values[plan.inputs[0]].val.sizes = [2**20, 2**20]
        if number == 2:
            instructions[-1].instr_args.args[0] = 10_000
        if number == 3:
            jump = schema.JumpFalseCall(cond_value_index=len(plan.values), destination_instruction=0)
            plan.values.append(schema.EValue(schema.Bool(False)))
            instructions.append(schema.Instruction(jump))
        if number == 4:
            constant = next(one.val for one in plan.values if getattr(one.val, "data_buffer_idx", 0))
            constant.sizes = [2**20, 2**20]
        path.write_bytes(bytes(serialize_pte_binary(file)))
    return path


def _weights(path: Path) -> Path:
    return main_part(path).with_name("weights") / "weight.bin"
