"""The four stages of kokoro-coreml as Core ML packages, each in every size that is wanted."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import nn

from kokoro_nb.backends.base import quietly
from kokoro_nb.delivery.clients import kokoro_coreml_client as client
from kokoro_nb.delivery.clients import mlpackage_stages
from kokoro_nb.delivery.clients.client_contract import ClientContract, Dtype, Signature
from kokoro_nb.delivery.clients.package_weights import quantise
from kokoro_nb.delivery.clients.program_cache import program_place
from kokoro_nb.errors import InputError
from kokoro_nb.models import sized_stages
from kokoro_nb.models.kokoro import Kokoro
from kokoro_nb.models.patches import patched
from kokoro_nb.storage import atomic


@dataclass(frozen=True)
class Room:
    """Which of the client's sizes are delivered.

    Attributes
    ----------
    tokens : int
        The sizes of the first stage up to this one.
    seconds : tuple of float
        Those of the stages over frames; all of the client's by default.

    Raises
    ------
    InputError
        If the client has no such size.
    """

    tokens: int = client.TOKENS[-1]
    seconds: tuple[float, ...] = client.SECONDS

    def __post_init__(self) -> None:
        if self.tokens not in client.TOKENS:
            raise InputError(f"There is no size for {self.tokens} tokens; use one of {_listed(client.TOKENS)}.")
        other = [size for size in self.seconds if size not in client.SECONDS]
        if other or not self.seconds:
            raise InputError(f"There is no size of {_listed(other) or 'no'} s; use some of {_listed(client.SECONDS)}.")

    @property
    def programs(self) -> tuple[str, ...]:
        """Paths of the programs in the folder."""
        first = [client.durations(size) for size in client.TOKENS if size <= self.tokens]
        rest = [name for size in client.SECONDS if size in self.seconds for name in client.frame_stages(size)]
        return (*first, *rest)


def _listed(sizes: Sequence[float]) -> str:
    return ", ".join(f"{size:g}" for size in sizes)


def exported_sizes(kokoro: Kokoro, contract: ClientContract, dtype: Dtype, room: Room) -> Path:
    """Return the folder of the packages, of which those of `room` are there, out of the cache or made now.

    Raises
    ------
    InputError
        If the model has more features than the client.
    """
    text = kokoro.model.text_encoder.embedding.embedding_dim
    if text > sized_stages.TEXT:
        raise InputError(f"The text encoder gives {text} features, and {contract.label} has room for 512.")
    folder = program_place(contract.client, ("coremltools",), weights=kokoro.weights.label, dtype=dtype)
    channels = kokoro.model.decoder.generator.ups[0].in_channels
    with patched(kokoro.model):
        for name in room.programs:
            if not (folder / name).is_dir():
                # in float16 a duration near a half is rounded the other way
                precise = dtype == "float32" or "duration" in name
                with atomic(folder / name) as draft:
                    package(_stage(kokoro, name), client.programs(channels)[name], precise, draft)
                    if dtype == "int8" and not precise:
                        quantise(draft)
    return folder


def package(module: nn.Module, signature: Signature, precise: bool, path: Path) -> None:
    """Convert a module of static size, whose parameters are the inputs of `signature`, and save it.

    The module is exported first, which makes a number of every size, and that program traced: of an exported program
    coremltools 9.0 takes no LSTM, and of a trace no size that is computed (with NumPy 2.4).
    """
    given = tuple(mlpackage_stages.example(rule) for rule in signature[0])
    with torch.no_grad(), quietly():
        program = torch.export.export(module.eval(), given).module()
    with atomic(path) as draft:
        mlpackage_stages.package(program, signature, {}, precise, draft)


def _stage(kokoro: Kokoro, name: str) -> nn.Module:
    model = kokoro.model
    if "duration" in name:
        return sized_stages.SizedDurations(model)
    if "f0ntrain" in name:
        return sized_stages.SizedPitch(model)
    return sized_stages.SizedTrunk(model) if "decoder_pre" in name else sized_stages.SizedGenerator(model.decoder)
