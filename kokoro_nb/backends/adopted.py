"""A file that somebody else exported of a module, taken as this package's own artefact, so that it can be looked into.

Which value of the file holds the result of which operator of the module is found by name, where the file came from
torch's exporter of today, whatever converter it went through after that; else by what the values are on other inputs;
and where those are wrong on any inputs, by the one node of the same kind that reads the same.
"""

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from kokoro_nb.backends.artefacts import artefact_folder
from kokoro_nb.backends.base import META, Artifact, Backend, quietly
from kokoro_nb.backends.called_operators import user_results
from kokoro_nb.backends.exported import Exported
from kokoro_nb.backends.file_facts import FileFact, file_facts
from kokoro_nb.backends.signature import Arrays, checked
from kokoro_nb.backends.taps import TAPS, TapMap, write_taps
from kokoro_nb.errors import InputError, one_line
from kokoro_nb.storage import atomic, file_digest, read_json, write_json
from kokoro_nb.traces.operators import INPUT, Operator

FACTS = "facts.json"
# what runs files of these kinds, and exports a module anew
OTHERS = {".pte": "executorch-xnnpack", ".mlpackage": "coreml-reference", ".so": "tvm-unfused"}
CLOSE = 0.02  # of the peak: as near as an int8 file comes to its module on ordinary inputs
MOST = 0.9  # of the elements: a file that is wrong at a few is still known by the others
CHANNEL = 4  # elements of a channel from which it is told from others by their ratios
LARGE = 16  # elements of a weight from which it is looked for in a file
FEW = 8  # elements by which a weight is known among others
SAME = 0.01  # of its norm: how much a weight may change by rounding to float16


def adopted(
    runtime: Backend, exported: Exported, file: str | Path, inputs: Arrays, folder: str | Path | None = None
) -> Artifact:
    """Return the artefact that `file` is of a program, with the places of its operators' results.

    Parameters
    ----------
    runtime : Backend
        That runs such files.
    exported : Exported
        The program that the file was made of.
    file : path
        ``.onnx``, with its weights in it or beside it.
    inputs : mapping
        Name -> tensor.
    folder : path, optional
        Where artefacts are saved; ``artefacts`` in the cache by default.

    Raises
    ------
    InputError
        If the file is absent, damaged, of another runtime, or of another module.
    """
    path = Path(file)
    if not path.exists():
        raise InputError(f"There is no file {path}; give the file that was exported of the module.")
    expected = Path(str(getattr(runtime, "file", ""))).suffix
    if path.suffix != expected or expected != ".onnx":
        own = OTHERS.get(path.suffix, runtime.name)
        raise InputError(
            f"{path} cannot be looked into beside its module: that takes an .onnx file and the backend onnxruntime; "
            f"leave the file out and diagnose the module on {own}, which exports it anew."
        )
    model = _model(path)
    places = _places(path, model, exported, inputs)
    facts = file_facts(model, exported, places)
    about = {"backend": runtime.name, "file": path.name, "sha256": file_digest(path)}
    place = artefact_folder(folder) / f"{runtime.name}-adopted-{exported.content[:8]}-{about['sha256'][:16]}"
    with atomic(place) as draft:
        draft.mkdir()
        shutil.copyfile(path, draft / f"model{expected}")
        for beside in _data_files(path):
            shutil.copyfile(path.parent / beside, draft / beside)
        write_taps(draft / TAPS, TapMap(exported.specification.operators, places))
        write_json(draft / META, about)
        write_json(draft / FACTS, {name: asdict(fact) for name, fact in facts.items()})
    return Artifact(runtime.name, place / f"model{expected}", exported.inputs, exported.outputs, cached=True)


def _data_files(path: Path) -> set[str]:
    """Return the names of the files beside an ONNX file that hold its weights."""
    import onnx

    tensors = onnx.load(path, load_external_data=False).graph.initializer
    return {entry.value for tensor in tensors for entry in tensor.external_data if entry.key == "location"}


def read_facts(artefact: Artifact) -> dict[str, FileFact]:
    """Return what the file of an adopted artefact says of its operators by itself."""
    values = read_json(artefact.folder / FACTS, "list of facts")
    return {name: FileFact(**{kind: tuple(texts) for kind, texts in one.items()}) for name, one in values.items()}


def _model(path: Path) -> Any:
    import onnx

    try:
        with quietly():
            return onnx.load(path)
    except Exception as error:  # of protobuf, or of the files beside it
        raise InputError(f"{path} cannot be read as ONNX ({one_line(error)}); it is damaged or cut off.") from error


def _places(path: Path, model: Any, exported: Exported, inputs: Arrays) -> dict[str, str]:
    """Return the value of the file that holds the result of each operator.

    Raises
    ------
    InputError
        If the file cannot be run, takes other inputs, or holds other weights than the module.
    """
    from kokoro_nb.backends.onnx import onnx_program, places

    arrays = checked(inputs, exported.inputs)
    _require_interface(path, model, exported)
    _require_weights(path, model, exported)
    order = [value for node in model.graph.node for value in node.output if value]
    given = _values(path, arrays)
    with quietly():
        own = places(onnx_program(exported), exported)
    specification = exported.specification
    results = [specification.source_of(node) or "" for node in user_results(specification.program)]
    outputs = dict(zip(results, (value.name for value in model.graph.output), strict=True))
    found = {name: value for name, value in {**own, **outputs}.items() if value in given}
    shapes = {operator.name: operator.shape for operator in exported.specification.operators}
    found = {name: value for name, value in found.items() if name in shapes and given[value].shape == shapes[name]}
    other = _ordinary(arrays)
    seen, right = _values(path, other), _captured(exported, other)
    taken = set(found.values())
    for name, value in right.items():
        if name not in found and value.size:
            near = _nearest(value, {one: seen[one] for one in order if one in seen and one not in taken})
            if near is not None:
                found[name] = near
                taken.add(near)
    found |= of_same_inputs(exported.specification.operators, model.graph.node, found, given)
    if not found:
        raise InputError(f"{path} is no export of this module: no operator of it is found in the file.")
    return found


def _nearest(right: np.ndarray, values: Mapping[str, np.ndarray]) -> str | None:
    """Return the first of the values that is nearest to what is right in nine elements of ten; None if none is near."""
    best, name = CLOSE, None
    peak = float(np.max(np.abs(right[np.isfinite(right)]), initial=0.0)) if right.dtype.kind == "f" else 0.0
    for one, value in values.items():
        if value.shape != right.shape or (value.dtype.kind == "f") != (right.dtype.kind == "f"):
            continue
        if not peak:
            apart = 0.0 if np.array_equal(value, right) else 1.0
        else:
            with np.errstate(invalid="ignore"):
                apart = float(np.quantile(np.abs(value.astype(np.float64) - right), MOST)) / peak
        if apart < best * (1 - 1e-6):
            best, name = apart, one
    return name


def _ordinary(arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return inputs as large as those that are given, floats drawn at random: a fault that is rare does not show."""
    draw = np.random.default_rng(0)
    return {
        name: (array.mean() + (array.std() or 1.0) * draw.standard_normal(array.shape)).astype(array.dtype)
        if array.dtype.kind == "f" and array.size
        else array
        for name, array in arrays.items()
    }


def _captured(exported: Exported, arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return the result of every operator of the program in PyTorch."""
    found: dict[str, np.ndarray] = {}
    exported.specification.run(arrays, lambda name, result: found.update({name: result.numpy().copy()}))
    return found


def _values(path: Path, arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return every value of the file on these inputs."""
    import onnxruntime

    from kokoro_nb.backends.onnx import fed, tapped_model

    try:
        with quietly():
            model = tapped_model(path, None)
            session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    except Exception as error:
        raise InputError(f"{path} is nothing that onnxruntime can load ({one_line(error)}).") from error
    names = [node.name for node in session.get_outputs()]
    try:
        with quietly():
            return dict(zip(names, session.run(None, fed(session, arrays)), strict=True))
    except Exception as error:
        raise InputError(
            f"{path} does not run on these inputs ({one_line(error)}); give inputs that it takes."
        ) from error


def _require_interface(path: Path, model: Any, exported: Exported) -> None:
    constants = {tensor.name for tensor in model.graph.initializer}
    taken = [value for value in model.graph.input if value.name not in constants]
    mine = exported.inputs
    if len(taken) != len(mine) or len(model.graph.output) != len(exported.outputs):
        raise InputError(
            f"{path} is no export of this module: it has {len(taken)} inputs and {len(model.graph.output)} outputs, "
            f"the module {len(mine)} and {len(exported.outputs)}."
        )
    by_name = {value.name: value for value in taken}
    for value, spec in zip(taken, mine, strict=True):
        one = by_name.get(spec.name, value)
        shape = tuple(axis.dim_value for axis in one.type.tensor_type.shape.dim)
        if len(shape) != len(spec.shape) or any(a and a != b for a, b in zip(shape, spec.shape, strict=True)):
            raise InputError(
                f"{path} is no export of this module: "
                f"its input '{one.name}' has shape {shape}, and '{spec.name}' {spec.shape}."
            )


def _require_weights(path: Path, model: Any, exported: Exported) -> None:
    """Refuse a file in which less than half of the module's large weights are found; where it has none, of all."""
    from onnx import numpy_helper

    stored: Mapping[str, Any] = exported.program.state_dict
    floats = [value.detach().numpy() for value in stored.values() if value.numel() > 1 and value.is_floating_point()]
    mine = [value for value in floats if value.size >= LARGE] or floats
    attributes = (one.t for node in model.graph.node for one in node.attribute if one.HasField("t"))
    theirs = [numpy_helper.to_array(tensor) for tensor in (*model.graph.initializer, *attributes)]
    there = sum(any(is_it(tensor, value) for is_it in (_holds, is_folded) for tensor in theirs) for value in mine)
    if 2 * there < len(mine):
        raise InputError(
            f"{path} is no export of this module: {there} of the module's {len(mine)} larger weights are in it."
        )


def _holds(tensor: np.ndarray, weight: np.ndarray) -> bool:
    """Return whether a tensor of a file is a weight, or holds it among others, as the gates of an LSTM.

    A weight that was quantised is recognised by its size alone.
    """
    if tensor.dtype.kind != "f":
        return tensor.size == weight.size and tensor.dtype.itemsize == 1
    size = float(np.linalg.norm(weight.astype(np.float64)))
    if tensor.size == weight.size:
        return abs(float(np.linalg.norm(tensor.astype(np.float64))) - size) <= SAME * size
    if tensor.size < weight.size:
        return False
    few = weight.reshape(-1)[:: max(1, weight.size // FEW)][:FEW]
    near = 4 * float(np.finfo(tensor.dtype).eps) * np.abs(few)
    return all(bool((np.abs(tensor - one) <= room).any()) for one, room in zip(few, near, strict=True))


def is_folded(tensor: np.ndarray, weight: np.ndarray) -> bool:
    """Return whether each channel of a tensor is a multiple of one of the weight, whatever the order within it.

    It is where a norm was folded into the weight.
    """
    return tensor.size == weight.size and any(
        weight.size >= CHANNEL * weight.shape[one] == CHANNEL * tensor.shape[two]
        and np.allclose(_channels(tensor, two), _channels(weight, one), atol=SAME)
        for one, two in product(range(weight.ndim), range(tensor.ndim))
    )


def _channels(array: np.ndarray, axis: int) -> np.ndarray:
    """Return the sizes of the elements of each channel in order, of norm 1."""
    rows = np.sort(np.abs(np.moveaxis(array.astype(np.float64), axis, 0).reshape(array.shape[axis], -1)), axis=1)
    return rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), np.finfo(np.float64).tiny)


def of_same_inputs(
    operators: Sequence[Operator], nodes: Sequence[Any], places: Mapping[str, str], values: Mapping[str, np.ndarray]
) -> dict[str, str]:
    """Return the places of operators that no value of the file comes near.

    Parameters
    ----------
    operators : sequence of Operator
        Of the module, in the order of execution.
    nodes : sequence of onnx.NodeProto
        Of the file.
    places : mapping
        Operator -> value of the file that holds its result, as far as known.
    values : mapping
        Value of the file -> the tensor that it holds.

    Returns
    -------
    dict
        Operator -> value, of each operator of which exactly one node of the file is of the same kind, gives the same
        shape, holds no other operator's result, and reads the result of an operator (or an input) that this one reads.
    """
    known = dict(places)
    found: dict[str, str] = {}
    for operator in operators:
        if operator.name in known:
            continue
        read = {known.get(one, one.removeprefix(INPUT)) for one in operator.inputs}
        fitting = [
            node.output[0]
            for node in nodes
            if node.op_type.lower() == operator.kind
            and len(node.output) == 1
            and node.output[0] in values
            and values[node.output[0]].shape == operator.shape
            and node.output[0] not in known.values()
            and read & {*node.input}
        ]
        if len(fitting) == 1:
            known[operator.name] = found[operator.name] = fitting[0]
    return found
