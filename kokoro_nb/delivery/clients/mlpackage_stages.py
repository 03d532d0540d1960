"""The seven stages as Core ML packages of any length, converted from a trace."""

from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from kokoro_nb.backends.base import quietly
from kokoro_nb.delivery.clients import fluidaudio_client as client
from kokoro_nb.delivery.clients.client_contract import ClientContract, Dtype, Programs, Ranges, Signature, TensorRule
from kokoro_nb.delivery.clients.package_weights import quantise
from kokoro_nb.delivery.clients.program_cache import program_place
from kokoro_nb.delivery.clients.speech_program import NoiseChoice
from kokoro_nb.models import seven_stages
from kokoro_nb.models.kokoro import Kokoro
from kokoro_nb.models.patches import patched
from kokoro_nb.storage import atomic

# in float16 a duration near a half is rounded the other way, and the phases of noise and tail are not held
PRECISE = (client.ALBERT, client.POST_ALBERT, client.NOISE, client.TAIL)
EXAMPLE = {"tokens": 13, "frames": 31, "pitches": 62, "slow": 620, "fast": 3721}


def exported_packages(
    kokoro: Kokoro, noise: NoiseChoice, contract: ClientContract, dtype: Dtype, shows_har: bool = False
) -> Path:
    """Return the folder of the packages, out of the cache or made now.

    Parameters
    ----------
    kokoro : Kokoro
    noise : NoiseChoice
        Drawn, it is another in each call of Core ML's, whose operator has no seed then.
    contract : ClientContract
    dtype : str
        What the stages compute in and store, but for int8, which is stored alone: they compute in float16 then. Those
        of `PRECISE` stay float32.
    shows_har : bool
        Have the stage of the noise give `har` too, for a comparison number by number.
    """
    about = {"weights": kokoro.weights.label, "noise": repr(noise), "dtype": dtype, "har": shows_har}
    folder = program_place(contract.client, ("coremltools",), **about)
    if not folder.is_dir():
        with atomic(folder) as draft, patched(kokoro.model):
            draft.mkdir(parents=True)
            for name, (module, signature) in _stages(kokoro, noise, shows_har).items():
                precise = dtype == "float32" or name in PRECISE
                package(module.eval(), signature, contract.ranges, precise, draft / name)
                if dtype == "int8" and not precise:
                    quantise(draft / name)
    return folder


def signatures(kokoro: Kokoro) -> Programs:
    """Return the signatures at the model's own widths."""
    model, generator = kokoro.model, kokoro.model.decoder.generator
    wide, near = (convolution.out_channels for convolution in generator.noise_convs)
    return client.programs(model.bert.config.hidden_size, model.text_encoder.embedding.embedding_dim, wide, near)


def _stages(kokoro: Kokoro, noise: NoiseChoice, shows_har: bool) -> dict[str, tuple[nn.Module, Signature]]:
    model, generator = kokoro.model, kokoro.model.decoder.generator
    modules: dict[str, nn.Module] = {
        client.ALBERT: seven_stages.AlbertStage(model),
        client.POST_ALBERT: seven_stages.PostAlbertStage(model),
        client.ALIGNMENT: seven_stages.SpreadStage(),
        client.PROSODY: seven_stages.PitchStage(model),
        client.NOISE: seven_stages.SourcesStage(generator, noise.origin, noise.seed, noise.samples, shows_har),
        client.VOCODER: seven_stages.VocoderStage(model),
        client.TAIL: seven_stages.TailStage(generator),
    }
    held = dict(signatures(kokoro))
    if shows_har:
        inputs, outputs = held[client.NOISE]
        held[client.NOISE] = (inputs, (*outputs, TensorRule("har", "float32", (1, 22, "fast"))))
    return {name: (module, held[name]) for name, module in modules.items()}


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
    import numpy as np

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
        traced = torch.jit.trace(module, tuple(example(rule) for rule in inputs), check_trace=False)
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


def example(rule: TensorRule) -> Tensor:
    """Return a tensor that an input may be given while it is traced."""
    shape = [EXAMPLE[axis] if isinstance(axis, str) else axis for axis in rule.shape]
    if rule.dtype.startswith("int"):
        return torch.full(shape, 2 if rule.name == "pred_dur" else 1, dtype=torch.int32)
    return torch.full(shape, 1.0 if rule.name in ("speed", "mask") else 0.1)
