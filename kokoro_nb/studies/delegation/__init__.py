"""11 asks which operators an accelerator takes, which run elsewhere, and why not the rest."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from kokoro.model import KModel, KModelForONNX

from kokoro_nb.backends import backend
from kokoro_nb.backends.base import Failure, absence
from kokoro_nb.backends.executorch.partition import Placement, partition_map, pieces, shares
from kokoro_nb.backends.exported import export_program
from kokoro_nb.backends.qnn import Qnn
from kokoro_nb.backends.qnn.assignment import Assignment, assignment, legacy_onnx
from kokoro_nb.models import stages
from kokoro_nb.models.case import Case
from kokoro_nb.models.patches import EXPORT_PATCHES, patched
from kokoro_nb.studies.decoder import decoder_program

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


XNNPACK, ALL = "executorch-xnnpack", "all patches"
LEFT_OUT = ("two_pass_norm", "fold_weight_norm")


@dataclass(frozen=True)
class Partitions:
    """Where each operator of the decoder from `har` runs.

    Attributes
    ----------
    maps : mapping
        (backend, patches) -> what `partition_map` returned.
    absent : mapping
        Backend that is not here -> the reason.
    """

    maps: Mapping[tuple[str, str], tuple[Placement, ...]]
    absent: Mapping[str, str]

    def rows(self) -> list[dict[str, Any]]:
        """Return a row for each backend and set of patches, with how many operators were taken."""
        rows = []
        for (name, patches), placed in self.maps.items():
            taken = sum(node.delegate is not None for node in placed)
            row = {"backend": name, "patches": patches, "operators": len(placed), "delegated": taken}
            rows.append({**row, "left": len(placed) - taken, "pieces": pieces(placed)})
        return rows

    def left(self) -> list[dict[str, Any]]:
        """Return a row for each operator that a backend leaves with all patches, with the partitioner's reason."""
        return [
            {
                "backend": name,
                "operator": share.operator,
                "left": share.left,
                "delegated": share.delegated,
                "why": "; ".join(share.reasons),
            }
            for (name, patches), placed in self.maps.items()
            if patches == ALL
            for share in shares(placed)
            if share.left
        ]

    def convolutions(self, name: str, patches: str = ALL) -> tuple[int, int]:
        """Return how many convolutions a backend takes, and how many there are."""
        found = [node for node in self.maps[name, patches] if "convolution" in node.operator]
        return sum(node.delegate is not None for node in found), len(found)


def partitions(model: KModel, case: Case, frames: int, delegates: Sequence[str]) -> Partitions:
    """Ask the partitioner of each of `delegates`, and XNNPACK's also without each of `LEFT_OUT`.

    Parameters
    ----------
    model : kokoro.model.KModel
        Without patches.
    case : Case
        The utterance.
    frames : int
        How much of it.
    delegates : sequence of str
        Keys of `BACKENDS`, of ExecuTorch with a delegate.
    """
    sets = {ALL: EXPORT_PATCHES}
    sets |= {f"without {patch}": tuple(one for one in EXPORT_PATCHES if one != patch) for patch in LEFT_OUT}
    exported = {name: decoder_program(model, case, frames, patches=patches).program for name, patches in sets.items()}
    here: dict[str, Any] = {name: backend(name) for name in delegates}
    absent = {name: reason for name in sorted(delegates) if (reason := here[name].available())}
    requested = [
        (name, each) for name in delegates if name not in absent for each in sets if each == ALL or name == XNNPACK
    ]
    return Partitions({(name, each): partition_map(here[name], exported[each]) for name, each in requested}, absent)
