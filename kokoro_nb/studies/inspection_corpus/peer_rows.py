"""The same planted faults for other tools: what each names, beside what an inspection names."""

import json
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal

import numpy as np

from kokoro_nb.studies.inspection_corpus.fault_entries import BASES, KINDS, PlantedFault, named
from kokoro_nb.studies.inspection_corpus.saved_rows import saved_rows

LIMIT = 180.0  # seconds for one tool on one file
Outcome = Literal["exact", "other node", "nothing", "false number", "fails", "format", "skip"]
OUTCOMES: tuple[Outcome, ...] = ("exact", "other node", "nothing", "false number", "fails", "format", "skip")


@dataclass(frozen=True)
class Peer:
    """Another tool: its name, the module that has to be there, and the ends of the files that it takes."""

    name: str
    module: str
    takes: tuple[str, ...]
    reason: str = ""


PEERS: tuple[Peer, ...] = (
    Peer("kokoro_nb", "kokoro_nb", (".onnx", ".pt2", ".pte", ".mlpackage")),
    Peer("ort_debug", "onnxruntime", (".onnx",)),
    Peer("polygraphy", "polygraphy", (".onnx",)),
    Peer("onnx_diagnostic", "onnx_diagnostic", (".onnx",)),
    Peer("executorch_inspector", "executorch", (".pte",)),
    Peer(
        "coremltools",
        "coremltools",
        (".mlpackage",),
        "its debugging_utils run the model in Core ML, which macOS alone has",
    ),
    Peer(
        "ort_node_dump",
        "onnxruntime",
        (".onnx",),
        "it is compiled in only with onnxruntime_DEBUG_NODE_INPUTS_OUTPUTS, which no published wheel has",
    ),
)


@dataclass(frozen=True)
class PeerCase:
    """One tool and one fault."""

    peer: Peer
    fault: PlantedFault

    @property
    def name(self) -> str:
        """Tool and fault."""
        return f"{self.peer.name}-{self.fault.name}"


@dataclass(frozen=True)
class PeerRow:
    """What a tool named, and what that is.

    Attributes
    ----------
    outcome : str
        ``exact``; ``other node``; ``nothing``; ``false number``: a figure or a pass for a node that gives what is not
        finite; ``fails``; ``format``: it does not take the file; ``skip``: it is not installed, or cannot run here.
    """

    case: str
    peer: str
    kind: str
    planted: str
    named: str
    outcome: Outcome
    words: str

    @property
    def sound(self) -> bool:
        """Whether nothing is wrong with this package's own answer; another tool's is only recorded."""
        return self.peer != "kokoro_nb" or self.outcome in ("exact", "format")


def peer_cases() -> tuple[PeerCase, ...]:
    """Return one fault of each kind in each file, for each tool."""
    faults = [PlantedFault(base, kind, 0) for kind in KINDS for base in BASES]
    return tuple(PeerCase(peer, fault) for peer in PEERS for fault in faults if _has_place(fault))


def _has_place(fault: PlantedFault) -> bool:
    with tempfile.TemporaryDirectory() as folder:
        return bool(fault.planted(fault.path(Path(folder))))


def peer_rows(
    only: Sequence[str] = (), folder: str | Path | None = None, watch: Callable[[Any], object] = lambda row: None
) -> tuple[PeerRow, ...]:
    """Run the tools, or take the rows that were made by the same code before; see `saved_rows`."""
    return saved_rows("peers", peer_cases(), PeerRow, peer_row, only, folder, watch)


def peer_row(case: PeerCase) -> PeerRow:
    """Plant a fault and give the file to a tool."""
    fault, peer = case.fault, case.peer
    about = (case.name, peer.name, fault.kind)
    if fault.healthy.suffix not in peer.takes:
        return PeerRow(*about, "", "", "format", f"it does not take {fault.healthy.suffix}")
    if peer.reason or find_spec(peer.module) is None:
        return PeerRow(*about, "", "", "skip", peer.reason or f"{peer.module} is not installed")
    with tempfile.TemporaryDirectory() as folder:
        path = fault.path(Path(folder))
        planted = fault.planted(path)
        if peer.name == "kokoro_nb":
            found = named(fault, fault.inspected(path))
            return PeerRow(*about, planted, found, _outcome(found, planted), "")
        values = Path(folder) / "values.npz"
        np.savez(values, **fault.inputs)
        answer, words = _asked(peer.name, fault, path, values)
        if answer is None:
            return PeerRow(*about, planted, "", "fails", words)
        found = str(answer["named"])
        right = _operator(path, planted) if path.suffix == ".pte" else planted
        outcome = _outcome(right if right and right in found else found, right)
        figures = {key: one for key, one in answer["figures"].items() if right in key}
        if outcome != "exact" and fault.kind in ("overflowing_cast", "infinity_less_infinity", "masked") and figures:
            outcome = "false number"
            words = f"{next(iter(figures.values()))} for a result that is not finite"
        return PeerRow(*about, planted, found, outcome, words)


def _outcome(found: str, planted: str) -> Outcome:
    return "exact" if found == planted else "other node" if found else "nothing"


def _operator(path: Path, key: str) -> str:
    """Return the operator of an instruction, by which ExecuTorch's Inspector calls it: not which of several."""
    from kokoro_nb.inspection.formats.pte_file import PteFile

    file = PteFile.read(path)
    number = int(key.split("/")[0].rsplit("_", 1)[1])
    return file.instructions.steps[number].label.split("::")[-1]


def _asked(tool: str, fault: PlantedFault, path: Path, values: Path) -> tuple[Any, str]:
    """Return the answer of a tool, and why there is none."""
    module = f"{__package__}.peer_tools"
    command = [sys.executable, "-m", module, tool, fault.base, str(path), str(fault.healthy), str(values)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=LIMIT, check=False)
    except subprocess.TimeoutExpired:
        return None, f"no answer in {LIMIT:.0f} s"
    if done.returncode != 0:
        lines = [line for line in done.stderr.splitlines() if line.strip()]
        return None, (lines[-1] if lines else f"ended with {done.returncode}")[:200]
    return json.loads(done.stdout.splitlines()[-1]), ""


def peers_summed(rows: Sequence[PeerRow]) -> list[dict[str, Any]]:
    """Return a row for each tool: how many faults it named exactly, and what it did with the others."""
    counts: dict[str, Counter[str]] = {}
    for row in rows:
        counts.setdefault(row.peer, Counter())[row.outcome] += 1
    return [
        {"peer": peer, **{one: found[one] for one in OUTCOMES}, "of": found.total()} for peer, found in counts.items()
    ]
