"""The programs of each client, exported and saved.

kokoro-onnx, sherpa-onnx and kokoro.js take one ONNX file. Weights may be stored in fewer bytes, in a file that still
computes in float32 and takes and gives what it did: a client that reads every output as float32, as sherpa-onnx does,
cannot be given another dtype.

Others take several: Core ML packages converted from a trace, or both ExecuTorch programs. FluidAudio's seven are of any
length; each of kokoro-coreml's four is there in every size that is wanted.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from kokoro_nb.backends.base import quietly
from kokoro_nb.cache_keys import cache_key
from kokoro_nb.delivery.any_length import lowered_program, open_program, write_open_onnx
from kokoro_nb.delivery.clients import known_clients as known
from kokoro_nb.delivery.clients.client_contract import ClientContract, Dtype, Programs, Ranges, Signature, TensorRule
from kokoro_nb.delivery.clients.known_clients import PREDICTOR, SYNTHESIZER, Room
from kokoro_nb.delivery.clients.programs import METHOD, model_schema
from kokoro_nb.errors import InputError
from kokoro_nb.models import seven_stages
from kokoro_nb.models.architecture import SAMPLE_RATE, STYLE
from kokoro_nb.models.kokoro import Kokoro
from kokoro_nb.models.patches import patched
from kokoro_nb.models.speaking import DurationProgram, NoiseOrigin, SynthesizerProgram, TextToAudio
from kokoro_nb.storage import atomic, cache_dir

ROOMS = ("backends", "delivery", "models")  # whose code makes the programs
IR_VERSION = 8
SMALLEST = 1024  # elements of weights; what is smaller stays as it is
SUFFIX = "_stored"
MAKERS = {"ONNX": "onnx", "ExecuTorch": "executorch", "Core ML": "coremltools"}
SPEECH = "speech.onnx"
BANK = "bank"  # the initializer that holds the noise, (samples, 9) float32, for an inspector to replace
# in float16 a duration near a half is rounded the other way, and the phases of noise and tail are not held
PRECISE = (known.ALBERT, known.POST_ALBERT, known.NOISE, known.TAIL, *map(known.durations_path, known.TOKEN_SIZES))
EXAMPLE = {"tokens": 13, **known.frame_sizes(31)}
UNSAID: Signature = ((), ())  # the one ONNX file has its names and axes from `write_speech`


@dataclass(frozen=True)
class NoiseChoice:
    """Where the source's noise comes from: see `speaking.TextToAudio`.

    A bank is the initializer ``bank`` of an ONNX file, and stays float32 however the weights are stored. As an input
    with a default, which could be overridden, it would have onnxruntime warn in each client.

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


def program_place(what: str, contract: ClientContract, **about: Any) -> Path:
    """Return the folder of the cache for programs made by this code: the same for all clients that take ONNX.

    Parameters
    ----------
    what : str
        Which programs: part of the key.
    contract : ClientContract
    about
        What else decides them: plain values.
    """
    client = "" if contract.form == "ONNX" else contract.client
    packages = ("torch", "kokoro", MAKERS[contract.form])
    return cache_dir() / "client_programs" / cache_key({"what": what, "client": client, **about}, ROOMS, packages)[:16]


def exported_programs(
    kokoro: Kokoro, noise: NoiseChoice, contract: ClientContract, dtype: Dtype = "float32", room: Room | None = None
) -> Path:
    """Return the folder of a client's programs, or the one file in ONNX, out of the cache or made now.

    Parameters
    ----------
    kokoro : Kokoro
    noise : NoiseChoice
        Drawn, it is another in each call of Core ML's, whose operator has no seed then.
    contract : ClientContract
    dtype : str
        What Core ML's stages compute in and store, but for int8, which is stored alone: they compute in float16 then.
        Those of `PRECISE` stay float32. Programs of other forms are float32 as yet.
    room : Room, optional
        The sizes of kokoro-coreml's that have to be there; all by default.

    Raises
    ------
    InputError
        If the model has more features than the client.
    """
    folder = _place(kokoro, noise, contract, dtype)
    with patched(kokoro.model):  # whose transform is another one outside
        held = signatures(kokoro, contract)
        for name, module in _modules(kokoro, noise, contract, room or Room()).items():
            save_program(folder / name, module, contract, held.get(name, UNSAID), dtype)
    return folder / SPEECH if contract.form == "ONNX" else folder


def exported_twin(kokoro: Kokoro, noise: NoiseChoice, contract: ClientContract) -> Path:
    """Return the second program with `har` as one more output, by which its audio can be held to PyTorch's numbers."""
    module = SynthesizerProgram(kokoro.model, *astuple(noise))
    module.shows_har, module.output_names = True, ("audio", "har")
    with patched(kokoro.model):
        path = _place(kokoro, noise, contract) / "twin.pte"
        return save_program(path, module, contract, contract.programs[SYNTHESIZER])


def _place(kokoro: Kokoro, noise: NoiseChoice, contract: ClientContract, dtype: Dtype = "float32") -> Path:
    made = dtype if contract.form == "Core ML" else "float32"
    return program_place("speech", contract, weights=kokoro.weights.label, noise=repr(noise), dtype=made)


def save_program(
    path: Path, module: nn.Module, contract: ClientContract, signature: Signature = UNSAID, dtype: Dtype = "float32"
) -> Path:
    """Save a module in the form of a client's programs, unless it is there, and return its path.

    Parameters
    ----------
    path : Path
        Its last part is the program's name.
    module : torch.nn.Module
        Its parameters are the inputs of `signature`, in that order.
    contract, signature, dtype
        See `exported_programs`; an ONNX program needs no signature.
    """
    if path.exists():
        return path
    with atomic(path) as draft:
        if contract.form == "ONNX":
            write_speech(module, draft)
        elif contract.form == "ExecuTorch":
            draft.write_bytes(lowered(module.eval(), signature, contract.ranges))
        else:
            precise = dtype == "float32" or path.as_posix().endswith(PRECISE)
            package(module.eval(), signature, contract.ranges, precise, draft)
            if dtype == "int8" and not precise:
                quantise(draft)
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
    stated = {**metadata, "kokoro_config": json.dumps(config, ensure_ascii=False)}
    onnx.helper.set_model_props(model, {**{entry.key: entry.value for entry in model.metadata_props}, **stated})
    onnx.checker.check_model(model)
    onnx.save(model, path)


def rename(model: Any, names: Mapping[str, str]) -> None:
    """Rename values of an ONNX model wherever they are given, made or read; its outputs keep their names."""
    for value in model.graph.input:
        value.name = names.get(value.name, value.name)
    for values in (values for node in model.graph.node for values in (node.input, node.output)):
        values[:] = [names.get(name, name) for name in values]


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
    largest = np.abs(values).max(axis=others, keepdims=True)
    scale = np.where(largest > 0, largest / 127, 1).astype(np.float32)
    return np.rint(values / scale).astype(np.int8), scale.reshape(-1)


def signatures(kokoro: Kokoro, contract: ClientContract) -> Programs:
    """Return the signatures of a client's programs, at the model's own widths where the client takes any."""
    model, generator = kokoro.model, kokoro.model.decoder.generator
    hidden = model.text_encoder.embedding.embedding_dim
    if contract.client == "fluidaudio":
        wide, near = (convolution.out_channels for convolution in generator.noise_convs)
        widths = {"bert": model.bert.config.hidden_size, "hidden": hidden, "features": hidden + STYLE}
        return known.signed(known.STAGES, **widths, wide=wide, near=near)
    if contract.client != "kokoro-coreml":
        return contract.programs
    if hidden > seven_stages.TEXT:
        raise InputError(f"The text encoder gives {hidden} features; kokoro-coreml has room for {seven_stages.TEXT}.")
    return known.sized_programs(generator.ups[0].in_channels)


def _modules(kokoro: Kokoro, noise: NoiseChoice, contract: ClientContract, room: Room) -> dict[str, nn.Module]:
    """Return what becomes of the model for a client, by the paths of the programs."""
    model, generator, chosen = kokoro.model, kokoro.model.decoder.generator, astuple(noise)
    if contract.form == "ONNX":
        return {SPEECH: TextToAudio(model, *chosen)}
    if contract.form == "ExecuTorch":
        return {PREDICTOR: DurationProgram(model), SYNTHESIZER: SynthesizerProgram(model, *chosen)}
    if contract.client == "fluidaudio":
        return {
            known.ALBERT: seven_stages.AlbertStage(model),
            known.POST_ALBERT: seven_stages.PostAlbertStage(model),
            known.ALIGNMENT: seven_stages.SpreadStage(),
            known.PROSODY: seven_stages.PitchStage(model),
            known.NOISE: seven_stages.SourcesStage(generator, *chosen),
            known.VOCODER: seven_stages.VocoderStage(model),
            known.TAIL: seven_stages.TailStage(generator),
        }
    kinds: dict[str, nn.Module] = {
        "duration": seven_stages.SizedDurations(model),
        "f0ntrain": seven_stages.SizedPitch(model),
        "decoder_pre": seven_stages.SizedTrunk(model.decoder),
        "decoder_har": seven_stages.SizedGenerator(model.decoder),
    }
    return {name: next(kinds[word] for word in kinds if word in name) for name in room.programs}


def package(module: nn.Module, signature: Signature, ranges: Ranges, precise: bool, path: Path) -> None:
    """Convert a module and save it as a ``.mlpackage``.

    One of static size is exported first, which makes a number of every size, and that program traced: of an exported
    program coremltools 9.0 takes no LSTM, and of a trace no size that is computed (with NumPy 2.4).

    Parameters
    ----------
    module : torch.nn.Module
        Its parameters are the inputs of `signature`, in that order.
    signature, ranges
        See `client_contract`.
    precise : bool
        Whether it computes in float32, not float16.
    path : Path
    """
    with quietly():
        import coremltools as ct

    inputs, outputs = signature
    axes: dict[Any, Any] = {name: ct.RangeDim(low, high, EXAMPLE[name]) for name, (low, high, _) in ranges.items()}
    shapes = [tuple(axes.get(axis, axis) for axis in rule.shape) for rule in inputs]
    sized = zip(inputs, shapes, strict=True)
    taken = [ct.TensorType(name=rule.name, shape=shape, dtype=getattr(np, rule.dtype)) for rule, shape in sized]
    with torch.no_grad(), quietly():
        example = tuple(_example(rule, EXAMPLE) for rule in inputs)
        if all(isinstance(axis, int) for rule in inputs for axis in rule.shape):
            module = torch.export.export(module, example).module()
        model: Any = ct.convert(
            torch.jit.trace(module, example, check_trace=False),
            source="pytorch",
            convert_to="mlprogram",
            inputs=taken,
            outputs=[ct.TensorType(name=rule.name, dtype=getattr(np, rule.dtype)) for rule in outputs],
            minimum_deployment_target=ct.target.iOS17,
            compute_precision=ct.precision.FLOAT32 if precise else ct.precision.FLOAT16,
            skip_model_load=True,
        )
        model.save(str(path))


def quantise(path: Path) -> None:
    """Store the larger weights of a ``.mlpackage`` as int8, in place: a scale for each channel, and no zero point.

    Weights of less than 2048 elements stay as they are: among them those of the inverse STFT, and with them its level.
    """
    with quietly():
        import coremltools as ct
        import coremltools.optimize.coreml as compression

        how = compression.OpLinearQuantizerConfig(mode="linear_symmetric", dtype="int8")
        model: Any = ct.models.MLModel(str(path), skip_model_load=True)
        smaller = compression.linear_quantize_weights(model, compression.OptimizationConfig(global_config=how))
        with atomic(path) as draft:
            smaller.save(str(draft))


def lowered(module: nn.Module, signature: Signature, ranges: Ranges) -> bytes:
    """Return a module as a ``.pte`` file, with what XNNPACK's partitioner takes lowered to it.

    The parameters are those of `package`.

    Raises
    ------
    InputError
        If the program does not take every size that the schema tells.
    """
    inputs, _ = signature
    axes = {name: torch.export.Dim(name, min=least, max=most) for name, (least, most, _) in ranges.items()}
    sizes = [{place: axes[axis] for place, axis in enumerate(rule.shape) if isinstance(axis, str)} for rule in inputs]
    example = [_example(rule, {axis: most for axis, (_, most, _) in ranges.items()}) for rule in inputs]
    methods = {METHOD: json.dumps(model_schema(signature, ranges))}
    with quietly():
        return lowered_program(open_program(module, example, sizes), methods)


def _example(rule: TensorRule, sizes: Mapping[str, int]) -> Tensor:
    """Return a tensor that an input may be given while it is traced or exported; float16 is float32 until then."""
    shape = [sizes[axis] if isinstance(axis, str) else axis for axis in rule.shape]
    if rule.dtype.startswith("float"):
        return torch.full(shape, 1.0 if rule.name in ("speed", "mask") else 0.1)
    return torch.full(shape, 2 if rule.name == "pred_dur" else 1, dtype=getattr(torch, rule.dtype))
