"""The programs of clients that take several: Core ML packages converted from a trace, and both ExecuTorch programs.

FluidAudio's seven are of any length; each of kokoro-coreml's four is there in every size that is wanted.
"""

import json
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from kokoro_nb.backends.base import quietly
from kokoro_nb.backends.executorch import DELEGATES
from kokoro_nb.delivery.clients import fluidaudio_client, kokoro_coreml_client
from kokoro_nb.delivery.clients.client_contract import ClientContract, Dtype, Programs, Ranges, Signature, TensorRule
from kokoro_nb.delivery.clients.known_clients import PREDICTOR, SYNTHESIZER
from kokoro_nb.delivery.clients.kokoro_coreml_client import Room
from kokoro_nb.delivery.clients.model_schema import METHOD, model_schema
from kokoro_nb.delivery.clients.speech_program import NoiseChoice, program_place
from kokoro_nb.delivery.open_programs import lowered_program, open_program
from kokoro_nb.errors import InputError
from kokoro_nb.models import seven_stages
from kokoro_nb.models.architecture import STYLE
from kokoro_nb.models.kokoro import Kokoro
from kokoro_nb.models.patches import patched
from kokoro_nb.models.speaking import DurationProgram, SynthesizerProgram
from kokoro_nb.storage import atomic

# in float16 a duration near a half is rounded the other way, and the phases of noise and tail are not held
PRECISE = (
    fluidaudio_client.ALBERT,
    fluidaudio_client.POST_ALBERT,
    fluidaudio_client.NOISE,
    fluidaudio_client.TAIL,
    *map(kokoro_coreml_client.durations, kokoro_coreml_client.TOKENS),
)
EXAMPLE = {"tokens": 13, "frames": 31, "pitches": 62, "slow": 620, "fast": 3721}
Stages = dict[str, tuple[nn.Module, Signature]]  # by the path of the package


def exported_packages(
    kokoro: Kokoro, noise: NoiseChoice, contract: ClientContract, dtype: Dtype, room: Room | None = None
) -> Path:
    """Return the folder of a client's packages, out of the cache or made now.

    Parameters
    ----------
    kokoro : Kokoro
    noise : NoiseChoice
        Drawn, it is another in each call of Core ML's, whose operator has no seed then.
    contract : ClientContract
    dtype : str
        What the stages compute in and store, but for int8, which is stored alone: they compute in float16 then. Those
        of `PRECISE` stay float32.
    room : Room, optional
        The sizes of kokoro-coreml's that have to be there; all by default.

    Raises
    ------
    InputError
        If the model has more features than the client.
    """
    about = {"weights": kokoro.weights.label, "noise": repr(noise), "dtype": dtype}
    folder = program_place(contract.client, ("coremltools",), **about)
    fluid = contract.client == "fluidaudio"
    with patched(kokoro.model):  # whose transform is another one outside
        for name, (module, signature) in (_seven(kokoro, noise) if fluid else _sized(kokoro, room or Room())).items():
            if (folder / name).is_dir():
                continue
            precise = dtype == "float32" or name in PRECISE
            with atomic(folder / name) as draft:
                (package if fluid else package_of_size)(module.eval(), signature, contract.ranges, precise, draft)
                if dtype == "int8" and not precise:
                    quantise(draft)
    return folder


def signatures(kokoro: Kokoro) -> Programs:
    """Return FluidAudio's signatures at the model's own widths."""
    model, generator = kokoro.model, kokoro.model.decoder.generator
    wide, near = (convolution.out_channels for convolution in generator.noise_convs)
    hidden = model.text_encoder.embedding.embedding_dim
    widths = {"bert": model.bert.config.hidden_size, "hidden": hidden, "features": hidden + STYLE}
    return fluidaudio_client.programs(**widths, wide=wide, near=near)


def _seven(kokoro: Kokoro, noise: NoiseChoice) -> Stages:
    """Return FluidAudio's stages."""
    model, generator = kokoro.model, kokoro.model.decoder.generator
    modules: dict[str, nn.Module] = {
        fluidaudio_client.ALBERT: seven_stages.AlbertStage(model),
        fluidaudio_client.POST_ALBERT: seven_stages.PostAlbertStage(model),
        fluidaudio_client.ALIGNMENT: seven_stages.SpreadStage(),
        fluidaudio_client.PROSODY: seven_stages.PitchStage(model),
        fluidaudio_client.NOISE: seven_stages.SourcesStage(generator, noise.origin, noise.seed, noise.samples),
        fluidaudio_client.VOCODER: seven_stages.VocoderStage(model),
        fluidaudio_client.TAIL: seven_stages.TailStage(generator),
    }
    held = signatures(kokoro)
    return {name: (module, held[name]) for name, module in modules.items()}


def _sized(kokoro: Kokoro, room: Room) -> Stages:
    """Return kokoro-coreml's stages in the sizes that are wanted."""
    model, text = kokoro.model, kokoro.model.text_encoder.embedding.embedding_dim
    if text > seven_stages.TEXT:
        raise InputError(f"The text encoder gives {text} features, and kokoro-coreml has room for {seven_stages.TEXT}.")
    held = kokoro_coreml_client.programs(model.decoder.generator.ups[0].in_channels)
    kinds: dict[str, Any] = {
        "duration": lambda: seven_stages.SizedDurations(model),
        "f0ntrain": lambda: seven_stages.SizedPitch(model),
        "decoder_pre": lambda: seven_stages.SizedTrunk(model),
        "decoder_har": lambda: seven_stages.SizedGenerator(model.decoder),
    }
    made = {name: next(make for word, make in kinds.items() if word in name)() for name in room.programs}
    return {name: (module, held[name]) for name, module in made.items()}


def package_of_size(module: nn.Module, signature: Signature, ranges: Ranges, precise: bool, path: Path) -> None:
    """Convert a module of static size, and save it: see `package`.

    The module is exported first, which makes a number of every size, and that program traced: of an exported program
    coremltools 9.0 takes no LSTM, and of a trace no size that is computed (with NumPy 2.4).
    """
    with torch.no_grad(), quietly():
        program = torch.export.export(module.eval(), tuple(_traced_example(rule) for rule in signature[0])).module()
    package(program, signature, ranges, precise, path)


def package(module: nn.Module, signature: Signature, ranges: Ranges, precise: bool, path: Path) -> None:
    """Convert a module and save it as a ``.mlpackage``.

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
    axes = {name: ct.RangeDim(least, most, EXAMPLE[name]) for name, (least, most, _) in ranges.items()}
    taken = [
        ct.TensorType(
            name=rule.name,
            shape=tuple(axes[axis] if isinstance(axis, str) else axis for axis in rule.shape),
            dtype=getattr(np, rule.dtype),
        )
        for rule in inputs
    ]
    with torch.no_grad(), quietly():
        traced = torch.jit.trace(module, tuple(_traced_example(rule) for rule in inputs), check_trace=False)
        model: Any = ct.convert(
            traced,
            source="pytorch",
            convert_to="mlprogram",
            inputs=taken,
            outputs=[ct.TensorType(name=rule.name, dtype=getattr(np, rule.dtype)) for rule in outputs],
            minimum_deployment_target=ct.target.iOS17,
            compute_precision=ct.precision.FLOAT32 if precise else ct.precision.FLOAT16,
            skip_model_load=True,
        )
        model.save(str(path))


def _traced_example(rule: TensorRule) -> Tensor:
    """Return a tensor that an input may be given while it is traced."""
    shape = [EXAMPLE[axis] if isinstance(axis, str) else axis for axis in rule.shape]
    if rule.dtype.startswith("int"):
        return torch.full(shape, 2 if rule.name == "pred_dur" else 1, dtype=torch.int32)
    return torch.full(shape, 1.0 if rule.name in ("speed", "mask") else 0.1)


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


def exported_pair(kokoro: Kokoro, noise: NoiseChoice, contract: ClientContract) -> Path:
    """Return the folder of both programs, out of the cache or made now."""
    _saved(PREDICTOR, PREDICTOR, DurationProgram(kokoro.model), kokoro, noise, contract)
    synthesizer = SynthesizerProgram(kokoro.model, noise.origin, noise.seed, noise.samples)
    return _saved(SYNTHESIZER, SYNTHESIZER, synthesizer, kokoro, noise, contract).parent


def exported_twin(kokoro: Kokoro, noise: NoiseChoice, contract: ClientContract) -> Path:
    """Return the second program with `har` as one more output, by which its audio can be held to PyTorch's numbers."""
    module = SynthesizerProgram(kokoro.model, noise.origin, noise.seed, noise.samples)
    module.shows_har, module.output_names = True, ("audio", "har")
    return _saved("twin.pte", SYNTHESIZER, module, kokoro, noise, contract)


def _saved(
    file: str, name: str, module: nn.Module, kokoro: Kokoro, noise: NoiseChoice, contract: ClientContract
) -> Path:
    about = {"weights": kokoro.weights.label, "noise": repr(noise)}
    path = program_place(contract.client, ("executorch",), **about) / file
    if not path.is_file():
        with atomic(path) as draft, patched(kokoro.model):
            draft.write_bytes(lowered(module.eval(), contract.programs[name], contract.ranges))
    return path


def lowered(module: nn.Module, signature: Signature, ranges: Ranges) -> bytes:
    """Return a module as a ``.pte`` file, with what XNNPACK's partitioner takes lowered to it.

    Parameters
    ----------
    module : torch.nn.Module
        Its parameters are the inputs of `signature`, in that order.
    signature, ranges
        See `client_contract`.

    Raises
    ------
    InputError
        If the program does not take every size that the schema tells.
    """
    inputs, _ = signature
    axes = {name: torch.export.Dim(name, min=least, max=most) for name, (least, most, _) in ranges.items()}
    sizes = [{place: axes[axis] for place, axis in enumerate(rule.shape) if isinstance(axis, str)} for rule in inputs]
    example = tuple(_example(rule.dtype, [_most(axis, ranges) for axis in rule.shape]) for rule in inputs)
    methods = {METHOD: json.dumps(model_schema(signature, ranges))}
    with quietly():
        program = open_program(module, example, sizes)
        return lowered_program(program, [DELEGATES["xnnpack"].partitioner()], methods)


def _most(axis: int | str, ranges: Ranges) -> int:
    return ranges[axis][1] if isinstance(axis, str) else axis


def _example(dtype: str, shape: list[int]) -> Tensor:
    if dtype == "bool":
        return torch.ones(shape, dtype=torch.bool)
    if dtype == "int64":
        return torch.arange(1, shape[-1] + 1).expand(shape) % 100
    return torch.full(shape, 0.1)
