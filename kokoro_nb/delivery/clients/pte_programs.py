"""Both ExecuTorch programs of a model, for any size within the client's ranges, each with the schema that tells it."""

import json
import logging
from pathlib import Path

import torch
from torch import Tensor, nn

from kokoro_nb.backends.base import quietly
from kokoro_nb.backends.executorch import DELEGATES
from kokoro_nb.delivery.clients.client_contract import ClientContract, Ranges, Signature
from kokoro_nb.delivery.clients.model_schema import METHOD, model_schema
from kokoro_nb.delivery.clients.react_native_client import PREDICTOR, SYNTHESIZER
from kokoro_nb.delivery.clients.speech_program import NoiseChoice, program_place
from kokoro_nb.delivery.open_programs import lowered_program, open_program
from kokoro_nb.errors import InputError
from kokoro_nb.models.kokoro import Kokoro
from kokoro_nb.models.patches import patched
from kokoro_nb.models.speaking import DurationProgram, SynthesizerProgram
from kokoro_nb.storage import atomic

_log = logging.getLogger(__name__)


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
    """Return a module as a ``.pte`` file: XNNPACK's where its partitioner lowers it, else the portable kernels' alone.

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
        try:
            return lowered_program(program, [DELEGATES["xnnpack"].partitioner()], methods)
        except InputError:
            raise
        except Exception as error:  # a partitioner's errors have no common class
            _log.warning("XNNPACK does not lower %s (%s); the portable kernels do.", type(module).__name__, error)
            return lowered_program(program, [], methods)


def _most(axis: int | str, ranges: Ranges) -> int:
    return ranges[axis][1] if isinstance(axis, str) else axis


def _example(dtype: str, shape: list[int]) -> Tensor:
    if dtype == "bool":
        return torch.ones(shape, dtype=torch.bool)
    if dtype == "int64":
        return torch.arange(1, shape[-1] + 1).expand(shape) % 100
    return torch.full(shape, 0.1)
