"""The same planted faults for other tools: what each names, beside what an inspection names."""

import tempfile
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np

from kokoro_nb.studies.inspection_corpus.fault_entries import BASES, KINDS, PlantedFault, named
from kokoro_nb.studies.inspection_corpus.peer_process import PeerProcess
from kokoro_nb.studies.inspection_corpus.saved_rows import saved_rows

LIMIT = 180.0  # seconds for one tool on one file
RENAMED = "_other_names"
DELEGATE = "DELEGATE_CALL"  # how ExecuTorch's Inspector calls all that is in a delegate
Outcome = Literal["exact", "other node", "false alarm", "nothing", "false number", "fails", "format", "skip"]
OUTCOMES: tuple[Outcome, ...] = get_args(Outcome)


@dataclass(frozen=True)
class Peer:
    """Another tool: its name, the module that has to be there, and the ends of the files that it takes.

    Where values are renamed, those of the healthy file have other names, as another exporter would give them.
    """

    name: str
    module: str
    takes: tuple[str, ...]
    reason: str = ""
    renamed: bool = False

    @property
    def tool(self) -> str:
        """Its name in `peer_tools`."""
        return self.name.removesuffix(RENAMED)

    def healthy(self, fault: PlantedFault, folder: Path) -> Path:
        """Return the file that it may compare with."""
        return renamed(fault.healthy, folder / "renamed.onnx") if self.renamed else fault.healthy


PEERS: tuple[Peer, ...] = (
    Peer("kokoro_nb", "kokoro_nb", (".onnx", ".pt2", ".pte", ".mlpackage")),
    Peer("ort_debug", "onnxruntime", (".onnx",)),
    Peer("polygraphy", "polygraphy", (".onnx",)),
    Peer(f"polygraphy{RENAMED}", "polygraphy", (".onnx",), renamed=True),
    Peer(f"kokoro_nb{RENAMED}", "kokoro_nb", (".onnx",), renamed=True),
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
        ``exact``; ``other node``; ``false alarm``: what it names, it names in the file without the fault, too;
        ``nothing``; ``false number``: a figure or a pass for a node that gives what is not finite; ``fails``;
        ``format``: it does not take the file; ``skip``: it is not installed, or cannot run here.
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
        return not self.peer.startswith("kokoro_nb") or self.outcome in ("exact", "format")


def peer_cases() -> tuple[PeerCase, ...]:
    """Return one fault of each kind in each file, for each tool."""
    faults = [PlantedFault(base, kind, 0) for base in BASES for kind in KINDS]
    planted = [fault for fault in faults if _has_place(fault)]
    return tuple(PeerCase(peer, fault) for peer in PEERS for fault in planted)


def _has_place(fault: PlantedFault) -> bool:
    with tempfile.TemporaryDirectory() as folder:
        return bool(fault.planted(fault.path(Path(folder))))


def peer_rows(
    only: Sequence[str] = (), folder: str | Path | None = None, watch: Callable[[Any], object] = lambda row: None
) -> tuple[PeerRow, ...]:
    """Run the tools, or take the rows that were made by the same code before; see `saved_rows`."""
    with PeerProcess() as process:
        return saved_rows("peers", peer_cases(), PeerRow, lambda case: peer_row(case, process), only, folder, watch)


def peer_row(case: PeerCase, process: PeerProcess) -> PeerRow:
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
        healthy = peer.healthy(fault, Path(folder))
        if peer.tool == "kokoro_nb":
            found = named(fault, fault.inspected(path, healthy))
            return PeerRow(*about, planted, found, _outcome(found, planted), "")
        answer, words = _asked(peer.tool, fault, path, healthy, process)
        right = _operator(path, planted) if path.suffix == ".pte" else planted
        before, _ = _of_healthy(peer, fault.base, process)
    if answer is None:
        return PeerRow(*about, planted, "", "fails", words + ("; of the healthy file, too" if before is None else ""))
    return PeerRow(*about, planted, *_judged(fault, right, answer, before))


def _judged(fault: PlantedFault, right: str, answer: Any, before: Any) -> tuple[str, Outcome, str]:
    """Return what a tool names, what that is, and in words what else there is to say of it."""
    named_here = str(answer["named"])
    keys = [named_here, *answer["figures"]]
    if fault.healthy.suffix == ".pte":  # the Inspector has one figure for instructions that it takes for one
        keys = [right if right in key else key for key in keys]
    found, *told = keys
    if found and before is not None and named_here == before["named"]:
        return found, "false alarm", "named in the healthy file, too"
    outcome = _outcome(found, right)
    figures = [one for key, one in zip(told, answer["figures"].values(), strict=True) if key == right]
    if outcome != "exact" and fault.kind in ("overflowing_cast", "infinity_less_infinity", "masked") and figures:
        return found, "false number", f"{figures[0]} for a result that is not finite"
    return found, outcome, "the delegate as a whole" if DELEGATE in found else ""


def _outcome(found: str, right: str) -> Outcome:
    return "exact" if found == right else "other node" if found else "nothing"


def _asked(tool: str, fault: PlantedFault, path: Path, healthy: Path, process: PeerProcess) -> tuple[Any, str]:
    """Return the answer of a tool for one file, and why there is none."""
    with tempfile.TemporaryDirectory() as folder:
        values = Path(folder) / "values.npz"
        np.savez(values, **fault.inputs)
        told = {"base": fault.base, "planted": str(path), "healthy": str(healthy), "values": str(values)}
        return process.ask(tool, told, LIMIT)


@lru_cache
def _of_healthy(peer: Peer, base: str, process: PeerProcess) -> tuple[Any, str]:
    """Return what it answers for the file without a fault: the control."""
    fault = PlantedFault(base, next(iter(KINDS)), 0)
    with tempfile.TemporaryDirectory() as folder:
        return _asked(peer.tool, fault, fault.healthy, peer.healthy(fault, Path(folder)), process)


def renamed(path: Path, copy: Path) -> Path:
    """Write an ONNX file with other names for all values but inputs and outputs, and return where."""
    import onnx

    model = onnx.load(path)
    kept = {one.name for one in (*model.graph.input, *model.graph.output)}
    known = {name for one in model.graph.node for name in one.output} | {one.name for one in model.graph.initializer}
    other = {name: f"value_{k}" for k, name in enumerate(sorted(known - kept - {""}))}
    for one in model.graph.initializer:
        one.name = other.get(one.name, one.name)
    for node in model.graph.node:
        for names in (node.input, node.output):
            names[:] = [other.get(name, name) for name in names]
    del model.graph.value_info[:]
    onnx.save(model, copy)
    return copy


def _operator(path: Path, key: str) -> str:
    """Return the operator of an instruction, by which ExecuTorch's Inspector calls it: not which of several."""
    from kokoro_nb.inspection.formats.pte_file import PteFile

    file = PteFile.read(path)
    number = int(key.split("/")[0].rsplit("_", 1)[1])
    return file.instructions.steps[number].label.split("::")[-1]


def peers_summed(rows: Sequence[PeerRow]) -> list[dict[str, Any]]:
    """Return a row for each tool: how many faults it named exactly, and what it did with the others."""
    counts: dict[str, Counter[str]] = {}
    for row in rows:
        counts.setdefault(row.peer, Counter())[row.outcome] += 1
    return [
        {"peer": peer, **{one: found[one] for one in OUTCOMES}, "of": found.total()} for peer, found in counts.items()
    ]
