"""What ExecuTorch's partitioners take of the decoder, with all patches, and without those that make operators fit."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kokoro.model import KModel

from kokoro_nb.backends import backend
from kokoro_nb.backends.executorch.partition import Placement, partition_map, pieces, shares
from kokoro_nb.models.case import Case
from kokoro_nb.models.patches import EXPORT_PATCHES
from kokoro_nb.studies.decoder import decoder_program

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
