import logging

import pytest
import torch
from torch import nn

from kokoro_nb.backends import BACKENDS
from kokoro_nb.backends.base import Artifact
from kokoro_nb.backends.executorch import DELEGATES, Executorch
from kokoro_nb.backends.exported import content, export_program
from kokoro_nb.errors import InputError
from tests.backends.small import Layers, Of, present

X = {"x": torch.linspace(-5, 5, 1000).reshape(1, 10, 100)}
AHEAD_OF_TIME = ["executorch-coreml", "executorch-vulkan"]


@pytest.mark.parametrize("name", AHEAD_OF_TIME)
def test_what_another_system_runs_is_built_and_not_executed_here(name, tmp_path):
    backend = present(name)
    made = backend.export(Layers(nn.Conv1d(10, 10, 3), nn.InstanceNorm1d(10), nn.GELU()), X, tmp_path)
    assert isinstance(made, Artifact), str(made)
    backend_id = DELEGATES[backend.delegate].backend_id
    assert backend_id.encode() in made.path.read_bytes()
    assert backend.executes() == f"The runtime in this ExecuTorch was built without {backend_id}."
    with pytest.raises(InputError, match=f"built without {backend_id}"):
        backend.load(made)
    assert BACKENDS["executorch-xnnpack"].executes() is None
    assert BACKENDS["executorch-portable"].executes() is None


def test_core_ml_is_reported_float32():
    partitioner = present("executorch-coreml").partitioner()
    told = {spec.key: spec.value for spec in partitioner.delegation_spec.compile_specs}
    assert told["model_compute_precision"] == b"float32"


def test_importing_vulkan_s_partitioner_leaves_the_log_level_alone():
    level = logging.root.level
    present("executorch-vulkan").partitioner()
    assert logging.root.level == level


def test_the_delegate_is_part_of_the_key():
    named = {name: Executorch("x", delegate=name).options() for name in (None, *DELEGATES)}
    assert len({str(options) for options in named.values()}) == 1 + len(DELEGATES)


@pytest.mark.parametrize("name", ["executorch-coreml", "executorch-vulkan", "executorch-xnnpack"])
def test_the_exported_program_keeps_its_constants(name, tmp_path):
    lifted = Of(lambda x: x * torch.tensor([2.0, 3.0]) + torch.where(x > 0, torch.tensor(1.0), x))
    exported = export_program(lifted, {"x": torch.ones(1, 2)})
    before = content(exported.program)
    present(name).export(exported, {"x": torch.ones(1, 2)}, tmp_path)
    assert content(exported.program) == before
    assert exported.program.run_decompositions({}).constants.keys() == exported.program.constants.keys()
