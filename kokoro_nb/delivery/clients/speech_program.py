"""The one ONNX file that kokoro-onnx, sherpa-onnx and kokoro.js take, and where exported programs are saved.

Weights may be stored in fewer bytes, in a file that still computes in float32 and takes and gives what it did: a client
that reads every output as float32, as sherpa-onnx does, cannot be given another dtype.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from kokoro_nb.cache_keys import cache_key
from kokoro_nb.delivery.clients.client_contract import Dtype, TensorRule
from kokoro_nb.delivery.open_programs import write_open_onnx
from kokoro_nb.models.architecture import SAMPLE_RATE, STYLE
from kokoro_nb.models.kokoro import Kokoro
from kokoro_nb.models.patches import patched
from kokoro_nb.models.speaking import NoiseOrigin, TextToAudio
from kokoro_nb.storage import atomic, cache_dir

ROOMS = ("backends", "delivery", "models")  # whose code makes the programs
IR_VERSION = 8
SMALLEST = 1024  # elements of weights; what is smaller stays as it is
SUFFIX = "_stored"
BANK = "bank"  # the initializer that holds the noise, (samples, 9) float32, for an inspector to replace


@dataclass(frozen=True)
class NoiseChoice:
    """Where the source's noise comes from: see `speaking.TextToAudio`.

    A bank is the initializer ``bank`` of an ONNX file, and stays float32 however the weights are stored. `with_bank`
    overrides it; as an input with a default, which could be overridden too, it would have onnxruntime warn in each
    client.

    Attributes
    ----------
    origin : {"bank", "drawn"}
    seed : int
        Of the bank.
    samples : int
        Length of the bank.
    """

    origin: NoiseOrigin = "bank"
    seed: int = 0
    samples: int = SAMPLE_RATE


def program_place(what: str, packages: Iterable[str], **about: Any) -> Path:
    """Return the path, without a suffix, that belongs to a program made by this code, of this, with these packages.

    Parameters
    ----------
    what : str
        Which program: part of the key.
    packages : iterable of str
        Distributions that make it, beside torch and kokoro.
    about
        What else decides it: plain values.
    """
    key = cache_key({"what": what, **about}, ROOMS, ("torch", "kokoro", *packages))
    return cache_dir() / "client_programs" / key[:16]


def exported_program(kokoro: Kokoro, noise: NoiseChoice) -> Path:
    """Return the exported file, float32, out of the cache or made now."""
    path = program_place("speech", ("onnx",), weights=kokoro.weights.label, noise=repr(noise)).with_suffix(".onnx")
    if not path.is_file():
        module = TextToAudio(kokoro.model, noise.origin, noise.seed, noise.samples)
        with atomic(path) as draft, patched(kokoro.model):
            write_speech(module, draft)
    return path


def write_speech(module: nn.Module, path: Path) -> None:
    """Export a module that takes ids, style and speed and gives a waveform and durations, for a text of any length."""
    # the shortest text of which no axis has the size of another
    example = (torch.tensor([[0, 16, 43, 44, 0]]), torch.zeros(1, 2 * STYLE), torch.ones(1))
    axes = {"input_ids": {1: "tokens"}, "waveform": {0: "samples"}, "duration": {0: "tokens"}}
    write_open_onnx(module, example, ("input_ids", "style", "speed"), axes, path)


def finish(
    path: Path, dtype: Dtype, inputs: Sequence[TensorRule], metadata: Mapping[str, str], config: Mapping[str, Any]
) -> None:
    """Give a file the names, the metadata, the version of the form and the dtype of its weights that a client wants."""
    import onnx

    model = onnx.load(path)
    model.ir_version = min(model.ir_version, IR_VERSION)
    rename(model, {"input_ids": inputs[0].name})
    _store(model, dtype)
    set_metadata(model, {**metadata, "kokoro_config": json.dumps(config, ensure_ascii=False)})
    onnx.checker.check_model(model)
    onnx.save(model, path)


def rename(model: Any, names: Mapping[str, str]) -> None:
    """Rename inputs of an ONNX model wherever they are read."""
    for value in model.graph.input:
        value.name = names.get(value.name, value.name)
    for node in model.graph.node:
        for position, name in enumerate(node.input):
            if name in names:
                node.input[position] = names[name]


def set_metadata(model: Any, metadata: Mapping[str, str]) -> None:
    """Set keys of an ONNX model's metadata, those that it has too."""
    from onnx import helper

    kept = {entry.key: entry.value for entry in model.metadata_props}
    helper.set_model_props(model, {**kept, **metadata})


def _store(model: Any, dtype: Dtype) -> None:
    """Store the larger weights of an ONNX model as `dtype`, in place; the bank of noise stays as it is.

    Parameters
    ----------
    model : onnx.ModelProto
        Of opset 13 or above.
    dtype : {"float32", "float16", "int8"}
        ``float16``: rounded, and cast back when the file is loaded. ``int8``: a scale for each channel, the largest
        magnitude of the channel over 127, and no zero point.
    """
    import onnx
    from onnx import helper, numpy_helper

    if dtype == "float32":
        return
    graph, nodes = model.graph, []
    for tensor in graph.initializer:
        large = len(tensor.dims) > 1 and np.prod(tensor.dims) >= SMALLEST
        if tensor.data_type != onnx.TensorProto.FLOAT or not large or tensor.name == BANK:
            continue
        name, values = tensor.name, numpy_helper.to_array(tensor)
        if dtype == "float16":
            stored = values.astype(np.float16)
            nodes.append(helper.make_node("Cast", [name + SUFFIX], [name], to=onnx.TensorProto.FLOAT))
        else:
            axis = 1 if values.ndim == 3 and values.shape[0] <= 2 else 0  # an LSTM's first axis is the direction
            stored, scale = _quantised(values, axis)
            graph.initializer.append(numpy_helper.from_array(scale, f"{name}_scale"))
            nodes.append(helper.make_node("DequantizeLinear", [name + SUFFIX, f"{name}_scale"], [name], axis=axis))
        tensor.CopyFrom(numpy_helper.from_array(stored, name + SUFFIX))
    before = list(graph.node)
    del graph.node[:]
    graph.node.extend([*nodes, *before])


def _quantised(values: np.ndarray, axis: int) -> tuple[np.ndarray, np.ndarray]:
    """Return int8 values and their scales, one for each position of `axis`.

    >>> stored, scale = _quantised(np.array([[127.0, -63.5], [0.0, 0.0]], np.float32), 0)
    >>> stored.tolist(), scale.tolist()
    ([[127, -64], [0, 0]], [1.0, 1.0])
    """
    others = tuple(one for one in range(values.ndim) if one != axis)
    largest = np.abs(values).max(axis=others)
    scale = np.where(largest > 0, largest / 127, 1).astype(np.float32)
    shape = [-1 if one == axis else 1 for one in range(values.ndim)]
    return np.rint(values / scale.reshape(shape)).astype(np.int8), scale
