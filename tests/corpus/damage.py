"""Files that are damaged, of all formats: what is said of them has to be a sentence or a report.

Each damage takes the path of a healthy copy, changes it, and returns the path to inspect. ``python -m
tests.corpus.damage HEALTHY ...`` inspects them all and prints a line of JSON for each: name, and what was said.
"""

import json
import os
import re
import resource
import shutil
import signal
import struct
import sys
import tempfile
import zipfile
import zlib
from pathlib import Path

import numpy as np

from kokoro_nb.errors import InputError
from kokoro_nb.inspection import inspect
from tests.corpus.onnx_files import saved

SECONDS, MEMORY = 60, 6 * 10**9  # that one inspection may take; bytes of data, with what was there when it was begun
BOMB, HUGE, CHUNK = 8 * 2**30, 2**40, 2**24  # bytes that kilobytes become when unpacked; elements, or bytes; bytes
OTHER = {".onnx": ".pt2", ".pt2": ".onnx", ".pte": ".mlmodel", ".mlmodel": ".pte", ".mlpackage": ".pt2"}
WRITERS = {
    **{".onnx": "legacy_onnx", ".pt2": "pt2", ".pte": "portable_pte"},
    **{".mlpackage": "float32_mlpackage", ".mlmodel": "float32_mlpackage"},
}


def healthy_copy(suffix, healthy, folder):
    """Return a copy of the healthy file of a format."""
    source = next(path for path in healthy if path.stem == WRITERS[suffix])
    if suffix == ".mlmodel":  # what a package holds, without the package
        shutil.copytree(_main_part(source).parent / "weights", folder / "weights")
        return Path(shutil.copy(_main_part(source), folder / "model.mlmodel"))
    path = folder / f"model{suffix}"
    return Path(shutil.copytree(source, path) if source.is_dir() else shutil.copy(source, path))


def _main_part(path):
    """Return the file that says what the model computes: of a package one inside."""
    return path / "Data" / "com.apple.CoreML" / "model.mlmodel" if path.is_dir() else path


def _bytes(change, part_of=_main_part):
    def damage(path):
        part = part_of(path)
        part.write_bytes(change(bytearray(part.read_bytes())))
        return path

    return damage


def _flipped(data):
    for place in np.random.default_rng(1).integers(len(data) * 8, size=16):
        data[place // 8] ^= 1 << (place % 8)
    return data


def _folder(path):
    shutil.rmtree(path) if path.is_dir() else path.unlink()
    path.mkdir()
    return path


ANY = {
    "cut_off": _bytes(lambda data: data[: int(len(data) * 0.6)]),
    "nearly_whole": _bytes(lambda data: data[: int(len(data) * 0.999)]),
    "bits_flipped": _bytes(_flipped),
    "empty": _bytes(lambda data: b""),
    "folder": _folder,
    "wrong_extension": lambda path: path.rename(path.with_suffix(OTHER[path.suffix])),
}
"""Damage that looks at no format."""


def _model(change):
    """Return a damage that changes the protobuf of an ONNX file."""

    def damage(path):
        import onnx

        model = onnx.load(path, load_external_data=False)
        change(model)
        path.write_bytes(model.SerializeToString())
        return path

    return damage


def _set(target, **values):
    for name, value in values.items():
        setattr(target, name, value)


def _sparse_without_end(model):
    from onnx import helper, numpy_helper

    tensor = model.graph.initializer[0]
    values = numpy_helper.from_array(numpy_helper.to_array(tensor).reshape(-1)[:4], tensor.name)
    places = numpy_helper.from_array(np.arange(4, dtype=np.int64), "places")
    del model.graph.initializer[0]
    model.graph.sparse_initializer.append(helper.make_sparse_tensor(values, places, [HUGE]))


def _chain(nodes, constants=None, shape=(2, 4)):
    """Return a damage that writes other nodes, whose values are v0, v1, ..., instead."""

    def damage(path):
        from onnx import helper

        made = [
            helper.make_node(kind, reads, [f"v{k}"], name=f"/{k}/{kind}", **more)
            for k, (kind, reads, more) in enumerate(nodes() if callable(nodes) else nodes)
        ]
        made.append(helper.make_node("ReduceMax", [f"v{len(made) - 1}"], ["y"], name="/max", keepdims=0))
        return saved(path, made, {"x": (1, list(shape))}, {"y": (1, [])}, constants)

    return damage


def _nested_deep():
    from onnx import helper

    def branch(nodes, name):
        return helper.make_graph(nodes, "b", [], [helper.make_tensor_value_info(name, 1, [2, 4])])

    flat = body = branch([helper.make_node("Abs", ["x"], ["deep"])], "deep")
    for k in range(28):
        body = branch([helper.make_node("If", ["yes"], [f"d{k}"], then_branch=body, else_branch=flat)], f"d{k}")
    return [("If", ["yes"], {"then_branch": body, "else_branch": body})]


def _of_itself(path):
    import onnx
    from onnx import helper

    _chain([("Round", ["x"], {"domain": "own"})])(path)
    model = onnx.load(path)
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid("own", 1)]
    inside = [helper.make_node("Round", ["a"], ["b"], domain="own")]
    model.functions.append(helper.make_function("own", "Round", ["a"], ["b"], inside, opsets))
    model.opset_import.add(domain="own", version=1)
    path.write_bytes(model.SerializeToString())
    return path


SIZE = np.array([HUGE], np.int64)
IN_ONNX = {
    "given_twice": _model(lambda model: model.graph.node[-1].output.__setitem__(0, model.graph.node[0].output[0])),
    "contradicting_types": _model(lambda model: _set(model.graph.input[0].type.tensor_type, elem_type=9)),
    "weight_without_end": _model(lambda model: model.graph.initializer[0].dims.__setitem__(slice(None), [HUGE])),
    "sparse_without_end": _model(_sparse_without_end),
    "input_without_end": _chain([("Abs", ["x"], {})], shape=(1, HUGE)),
    "constant_without_end": _chain([("ConstantOfShape", ["size"], {})], {"size": SIZE}),
    "expanded_without_end": _chain([("Expand", ["x", "size"], {})], {"size": np.array([HUGE, 4], np.int64)}),
    "random_without_end": _chain([("RandomNormal", [], {"shape": [HUGE]})]),
    "nested_deep": _chain(_nested_deep, {"yes": np.bool_(True)}),
    "function_of_itself": _of_itself,
}


def _bomb(path):
    """Have the weights of an archive become 8 GB: zeros that were compressed once, joined again and again."""
    with zipfile.ZipFile(path) as archive:
        members = {one.filename: archive.read(one) for one in archive.infolist()}
    first = next(name for name in members if "weight" in name)
    pack = zlib.compressobj(9, zlib.DEFLATED, -15)
    piece = pack.compress(b"\0" * CHUNK) + pack.flush(zlib.Z_FULL_FLUSH)
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in members.items():
            archive.writestr(name, piece * (BOMB // CHUNK) + pack.flush(zlib.Z_FINISH) if name == first else data)
        written = archive.getinfo(first)  # stored as it is, then called what it is
        written.compress_type, written.file_size = zipfile.ZIP_DEFLATED, 1000
        end = archive.fp.tell()
        for place, form, value in ((8, "<H", zipfile.ZIP_DEFLATED), (22, "<L", 1000)):
            archive.fp.seek(written.header_offset + place)
            archive.fp.write(struct.pack(form, value))
        archive.fp.seek(end)
    return path


def _members(change):
    """Return a damage that changes the members of an archive."""

    def damage(path):
        with zipfile.ZipFile(path) as archive:
            members = {one.filename: archive.read(one) for one in archive.infolist()}
        with zipfile.ZipFile(path, "w") as archive:
            for name, data in change(members).items():
                archive.writestr(name, data)
        return path

    return damage


def _torch_graph(change):
    def changed(members):
        name = next(one for one in members if one.endswith("models/model.json"))
        graph = json.loads(members[name])
        change(graph["graph_module"]["graph"])
        return members | {name: json.dumps(graph).encode()}

    return _members(changed)


IN_PT2 = {
    "bomb": _bomb,
    "weights_missing": _members(lambda all_: {name: data for name, data in all_.items() if "weight_0" not in name}),
    "unknown_operator": _torch_graph(lambda graph: graph["nodes"][-1].update(target="torch.ops.aten.nothing.default")),
    "value_without_end": _torch_graph(
        lambda graph: next(iter(graph["tensor_values"].values())).update(sizes=[{"as_int": HUGE}])
    ),
    "other_types": _torch_graph(lambda graph: [one.update(dtype=4) for one in graph["tensor_values"].values()]),
}


def _weights(path):
    return _main_part(path).with_name("weights") / "weight.bin"


def _without_end(data):
    place = 0
    while (place := data.find(struct.pack("<L", 0xDEADBEEF), place)) >= 0:
        data[place + 8 : place + 16] = struct.pack("<Q", HUGE)
        place += 8
    return data


def _weights_missing(path):
    _weights(path).unlink()
    return path


def _package(change):
    """Return a damage that changes the program of a package: it is given the whole and its operations."""

    def damage(path):
        import coremltools as ct

        spec = ct.utils.load_spec(str(_main_part(path)))
        function = spec.mlProgram.functions["main"]
        change(spec, function, function.block_specializations[function.opset].operations)
        _main_part(path).write_bytes(spec.SerializeToString())
        return path

    return damage


def _input_without_end(spec, function, operations):
    function.inputs[0].type.tensorType.dimensions[-1].constant.size = HUGE


def _reads_itself(spec, function, operations):
    last = next(one for one in reversed(operations) if "x" in one.inputs)
    last.inputs["x"].arguments[0].name = last.outputs[0].name


IN_PACKAGE = {
    "weights_missing": _weights_missing,
    "weights_shorter": _bytes(lambda data: data[:500], _weights),
    "weights_without_end": _bytes(_without_end, _weights),
    "unknown_operator": _package(lambda spec, function, operations: _set(operations[-1], type="frobnicate")),
    "unknown_version": _package(lambda spec, function, operations: _set(spec, specificationVersion=9999)),
    "input_without_end": _package(_input_without_end),
    "reads_itself": _package(_reads_itself),
}


def _executorch(change):
    """Return a damage that changes the plan of a program for ExecuTorch."""

    def damage(path):
        from executorch.exir._serialize import _program as tools

        file = tools.deserialize_pte_binary(path.read_bytes())
        change(file.program.execution_plan[0])
        path.write_bytes(bytes(tools.serialize_pte_binary(file)))
        return path

    return damage


def _jumps_back(plan):
    from executorch.exir import schema

    jump = schema.JumpFalseCall(cond_value_index=len(plan.values), destination_instruction=0)
    plan.values.append(schema.EValue(schema.Bool(False)))
    plan.chains[0].instructions.append(schema.Instruction(jump))


def _constant_without_end(plan):
    next(one.val for one in plan.values if getattr(one.val, "data_buffer_idx", 0)).sizes = [2**20, 2**20]


IN_PTE = {
    "unknown_operator": _executorch(lambda plan: _set(plan.operators[-1], name="aten::frobnicate")),
    "input_without_end": _executorch(lambda plan: _set(plan.values[plan.inputs[0]].val, sizes=[2**20, 2**20])),
    "value_missing": _executorch(lambda plan: plan.chains[0].instructions[-1].instr_args.args.__setitem__(0, 10_000)),
    "jumps_back": _executorch(_jumps_back),
    "constant_without_end": _executorch(_constant_without_end),
}
DAMAGES = {
    **{f"{suffix[1:]}-{name}": (suffix, one) for suffix in OTHER for name, one in ANY.items()},
    **{
        f"{suffix[1:]}-{name}": (suffix, one)
        for suffix, some in ((".onnx", IN_ONNX), (".pt2", IN_PT2), (".mlpackage", IN_PACKAGE), (".pte", IN_PTE))
        for name, one in some.items()
    },
}
"""Name -> format of the healthy file, and what is done to it."""


def said_of(path, folder):
    """Return what an inspection says, in a process that is forked for it; what ends that otherwise is said as well."""
    reads, writes = os.pipe()
    child = os.fork()
    if not child:
        resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))
        signal.alarm(SECONDS)
        os.write(writes, json.dumps(_row(path, folder)).encode())
        os._exit(0)
    os.close(writes)
    with os.fdopen(reads) as answer:
        row = answer.read()
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return json.loads(row) if row else {"verdict": f"ended with {code}"}


def _row(path, folder):
    try:
        report = inspect(path)
    except InputError as error:
        words = re.split(r"\d", str(error).replace(str(path), "FILE").replace(str(folder), "FOLDER"))[0]
        return {"verdict": "sentence", "said": words[:60].strip()}
    except Exception as error:  # of which the command, whose process it ends, makes a sentence
        return {"verdict": "raised", "said": type(error).__name__}
    first = report.first
    return {"verdict": report.verdict, **({"first": first.key, "blame": first.blame} if first else {})}


def main(healthy):
    """Write all of them, from the healthy files at these paths, and then inspect one after the other."""
    with tempfile.TemporaryDirectory() as room:
        folders = {name: Path(room, str(k)) for k, name in enumerate(DAMAGES)}
        paths = {}
        for name, (suffix, damage) in DAMAGES.items():
            folders[name].mkdir()
            paths[name] = damage(healthy_copy(suffix, healthy, folders[name]))
        for name, path in paths.items():
            print(json.dumps([name, said_of(path, folders[name])]), flush=True)


if __name__ == "__main__":
    main([Path(one) for one in sys.argv[1:]])
