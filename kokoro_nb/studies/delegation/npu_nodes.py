"""What Qualcomm's compiler assigns to the NPU: of the model as its package exports it, and of the patched decoder."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from kokoro.model import KModel, KModelForONNX

from kokoro_nb.backends.base import Failure, absence
from kokoro_nb.backends.exported import export_program
from kokoro_nb.backends.qnn import Qnn
from kokoro_nb.backends.qnn.assignment import Assignment, assignment, legacy_onnx
from kokoro_nb.models import stages
from kokoro_nb.models.case import Case
from kokoro_nb.models.patches import EXPORT_PATCHES, patched

WHOLE, UNPATCHED, PATCHED = "unpatched model", "unpatched decoder", "patched decoder"


@dataclass(frozen=True)
class NpuNodes:
    """Where the nodes of each graph run.

    Attributes
    ----------
    backend : str
        Name of the backend.
    absent : str
        Why the compiler cannot be run here; empty if it can.
    placed : mapping
        Graph -> where its nodes run, or the failure.
    """

    backend: str
    absent: str = ""
    placed: Mapping[str, Assignment | Failure] = field(default_factory=dict)

    def rows(self) -> list[dict[str, Any]]:
        """Return the rows of a table, one for each graph."""
        return [
            {"graph": name, **({"refusal": str(found)} if isinstance(found, Failure) else found.as_dict())}
            for name, found in self.placed.items()
        ]

    @property
    def failure(self) -> Failure | None:
        """Why the patched decoder does not compile; None if it does."""
        found = self.placed[PATCHED]
        return found if isinstance(found, Failure) else None

    def count(self, graph: str, *places: str) -> int:
        """Return how many nodes of `graph` are at one of `places`; 0 where it does not compile."""
        found = self.placed[graph]
        return 0 if isinstance(found, Failure) else sum(node.place in places for node in found.nodes)


def npu_nodes(model: KModel, case: Case, frames: int) -> NpuNodes:
    """Compile three graphs offline for the HTP, and ask node by node where each runs.

    Parameters
    ----------
    model : kokoro.model.KModel
        Without patches. Unpatched is as the package exports itself: with the patch `custom_stft` alone.
    case : Case
        The utterance.
    frames : int
        How much of it the decoders are exported for.
    """
    qnn = Qnn("onnxruntime-qnn")
    absent = absence(qnn)
    if absent:
        return NpuNodes(qnn.name, absent)
    inputs, decoder = case.decoder_inputs(frames), model.decoder
    whole = {"input_ids": case.tensors["ids"], "ref_s": case.tensors["ref_s"]}
    plain = {"asr": inputs["asr"], "F0_curve": inputs["f0"], "N": inputs["n"], "s": inputs["s"]}
    made: dict[str, Any] = {}
    with TemporaryDirectory() as scratch:
        with patched(model, ("custom_stft",)):
            made[WHOLE] = legacy_onnx(KModelForONNX(model), whole, Path(scratch) / "model.onnx")
            made[UNPATCHED] = legacy_onnx(decoder, plain, Path(scratch) / "decoder.onnx")
        with patched(model, EXPORT_PATCHES):
            made[PATCHED] = export_program(stages.DecoderStage(decoder), inputs)
        placed = {name: one if isinstance(one, Failure) else assignment(one, qnn) for name, one in made.items()}
    return NpuNodes(qnn.name, "", placed)
