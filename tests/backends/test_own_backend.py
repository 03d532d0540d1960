"""A backend of one's own: the whole of it, as a template, and what it has to do."""

from dataclasses import dataclass
from typing import Any

import torch

from kokoro_nb.backends.artefacts import FileBackend, FileProgram
from kokoro_nb.backends.base import on_rung
from kokoro_nb.backends.exported import export_program
from kokoro_nb.inspection import diagnose


@dataclass(frozen=True)
class Pt2Program(FileProgram):  # it shows no results of its operators: its trace says so
    module: Any
    by_name: bool  # how its inputs were given when it was exported

    def computed(self, arrays):
        tensors = {name: torch.tensor(array) for name, array in arrays.items()}
        made = self.module(**tensors) if self.by_name else self.module(*tensors.values())
        results = torch.utils._pytree.tree_leaves(made)
        return [result.detach().numpy() for result in results]


@dataclass(frozen=True)
class Pt2(FileBackend):
    """PyTorch's own archive of an exported program."""

    file = "model.pt2"
    packages = ()  # whose versions decide what is in the file; torch's always does

    def available(self):
        return None  # or the reason why it cannot be used here, in one sentence

    def write(self, exported, path, seconds):
        with on_rung("serialised", seconds):
            torch.export.save(exported.program, path)

    def opened(self, artifact, path):
        program = torch.export.load(path)
        return Pt2Program(artifact, program.module(), bool(program.example_inputs[1]))


def test_a_backend_of_ones_own_exports_loads_runs_and_finds_its_artefact_again(tmp_path):
    module, given = torch.nn.Linear(3, 2).eval(), {"input": torch.randn(4, 3)}
    backend = Pt2("pt2")
    artifact = backend.export(export_program(module, given), given, tmp_path)
    found = backend.load(artifact).run(given)
    assert torch.equal(torch.from_numpy(found["output"]), module(given["input"]).detach())
    assert backend.export(module, given, tmp_path).cached


def test_it_can_be_diagnosed_although_it_shows_no_operator(tmp_path):
    found = diagnose(torch.nn.Linear(3, 2).eval(), {"input": torch.randn(4, 3)}, Pt2("pt2"), folder=tmp_path)
    assert (found.verdict, found.method) == ("pass", "tracing")
    assert found.why == "pt2 shows 1 operators (compiled once more, with results as further outputs)"
