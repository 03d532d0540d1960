"""The one ONNX file that kokoro-onnx, sherpa-onnx and kokoro.js take."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from kokoro_nb.delivery.clients.client_contract import Dtype, TensorRule
from kokoro_nb.delivery.clients.program_cache import program_place
from kokoro_nb.delivery.clients.stored_weights import store
from kokoro_nb.delivery.open_onnx import write_open_onnx
from kokoro_nb.errors import InputError
from kokoro_nb.models.architecture import SAMPLE_RATE, STYLE
from kokoro_nb.models.kokoro import Kokoro
from kokoro_nb.models.patches import patched
from kokoro_nb.models.speaking import NoiseOrigin, TextToAudio
from kokoro_nb.storage import atomic

IR_VERSION = 8
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


def exported_program(kokoro: Kokoro, noise: NoiseChoice) -> Path:
    """Return the exported file, float32, out of the cache or made now."""
    path = program_place("speech", ("onnx",), weights=kokoro.weights.label, noise=repr(noise)).with_suffix(".onnx")
    if not path.is_file():
        with atomic(path) as draft:
            _export(kokoro, noise, draft)
    return path


def _export(kokoro: Kokoro, noise: NoiseChoice, path: Path) -> None:
    module = TextToAudio(kokoro.model, noise.origin, noise.seed, noise.samples)
    # the shortest text of which no axis has the size of another
    example = (torch.tensor([[0, 16, 43, 44, 0]]), torch.zeros(1, 2 * STYLE), torch.ones(1))
    axes = {"input_ids": {1: "tokens"}, "waveform": {0: "samples"}, "duration": {0: "tokens"}}
    with patched(kokoro.model):
        write_open_onnx(module, example, ("input_ids", "style", "speed"), axes, path)


def with_bank(program: Path, bank: np.ndarray) -> Any:
    """Load a delivered ONNX file with other noise in place of its own; the file stays as it is.

    Parameters
    ----------
    program : Path
    bank : numpy.ndarray, shape (samples, 9), float32
        As long as the one in the file; standard deviations.

    Returns
    -------
    onnxruntime.InferenceSession

    Raises
    ------
    InputError
        If the file has no bank of this shape.
    """
    import onnx
    import onnxruntime

    held = [one for one in onnx.load(program, load_external_data=False).graph.initializer if one.name == BANK]
    if not held or tuple(held[0].dims) != bank.shape:
        own = f"one of {tuple(held[0].dims)}" if held else "none"
        raise InputError(f"{program.name} has {own}, and cannot take a bank of {bank.shape}; give one of its shape.")
    options, value = onnxruntime.SessionOptions(), onnxruntime.OrtValue.ortvalue_from_numpy(bank.astype(np.float32))
    options.add_initializer(BANK, value)
    session = onnxruntime.InferenceSession(program, options, providers=["CPUExecutionProvider"])
    session.overridden = value  # which onnxruntime reads for as long as it runs, and does not hold
    return session


def finish(
    path: Path,
    dtype: Dtype,
    inputs: Sequence[TensorRule],
    metadata: Mapping[str, str],
    config: Mapping[str, Any],
) -> None:
    """Give a file the names, the metadata, the version of the form and the dtype of its weights that a client wants."""
    import onnx

    model = onnx.load(path)
    model.ir_version = min(model.ir_version, IR_VERSION)
    rename(model, {"input_ids": inputs[0].name})
    store(model, dtype, (BANK,))
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
    kept = {entry.key: entry.value for entry in model.metadata_props} | dict(metadata)
    del model.metadata_props[:]
    for key, value in kept.items():
        entry = model.metadata_props.add()
        entry.key, entry.value = key, value
