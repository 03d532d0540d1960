"""Which operators of an ONNX file, or of a delivery, a phone's NPU takes: by a table, and by the real compiler."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal

from kokoro_nb.backends.base import Failure, absence
from kokoro_nb.backends.qnn import Qnn, assignment
from kokoro_nb.delivery.hub import hub_available, submit
from kokoro_nb.delivery.pipeline import TwoStages
from kokoro_nb.errors import InputError
from kokoro_nb.models.case import capture
from kokoro_nb.models.kokoro import Kokoro
from kokoro_nb.models.patches import patched
from kokoro_nb.storage import read_json

Kind = Literal["supported", "fallback", "blocking", "unknown"]
KINDS: tuple[Kind, ...] = ("supported", "fallback", "blocking", "unknown")
TABLE = Path(__file__).parents[3] / "data" / "npu_operators.json"
LIMIT = 2**31  # bytes: no protobuf message is larger, and weights may lie in a file beside it
NOTES = ("reason", "note", "published", "compiler")
# what the compiler may do with a node of each class without contradicting the table; of an unknown one anything is news
EXPECTED: Mapping[Kind, tuple[assignment.Place, ...]] = {
    "supported": ("npu", "removed"),
    "fallback": ("cpu", "removed"),
    "blocking": ("cpu",),
    "unknown": (),
}


@dataclass(frozen=True)
class AuditedNode:
    """One node of the file.

    Attributes
    ----------
    name, op, domain : str
        As in the file; the domain of ONNX's own operators is ``""``.
    module : str
        Path of the module that it was exported from, ``""`` where the file does not state it.
    kind : str
        ``supported``: on the NPU; ``fallback``: the CPU computes it; ``blocking``: control flow, sequences, or a shape
        that depends on the data; ``unknown``: not in the table.
    reason : str
        Why, with what the list of operators and the compiler say where that is more than the class.
    removed_by : str
        What takes such operators out of Kokoro: a key of `patches.PATCHES`, or ``two stages``; ``""`` where the table
        names nothing.
    """

    name: str
    op: str
    domain: str
    module: str
    kind: Kind
    reason: str = ""
    removed_by: str = ""


@dataclass(frozen=True)
class NpuAudit:
    """What the table says of one ONNX file.

    Attributes
    ----------
    nodes : tuple of AuditedNode
        Each node of the file, those of branches and loop bodies after the node that holds them.
    dynamic : tuple of str
        Values with a symbolic or missing dimension: the NPU takes fixed shapes alone.
    undescribed : int
        Results of nodes of which the file states no shape: not known to be fixed.
    """

    nodes: tuple[AuditedNode, ...]
    dynamic: tuple[str, ...]
    undescribed: int

    def of(self, kind: Kind) -> tuple[AuditedNode, ...]:
        """Return the nodes of a class."""
        return tuple(node for node in self.nodes if node.kind == kind)

    def by_op(self) -> list[dict[str, Any]]:
        """Return a row for each operator type that is not supported, the most frequent first."""
        rows = Counter((n.op, n.domain, n.kind, n.reason, n.removed_by) for n in self.nodes if n.kind != "supported")
        names = ("op", "domain", "kind", "reason", "removed_by")
        return [{**dict(zip(names, row, strict=True)), "nodes": count} for row, count in rows.most_common()]

    def as_dict(self) -> dict[str, int]:
        """Return the row of a table."""
        counts: dict[str, int] = {kind: len(self.of(kind)) for kind in KINDS}
        shapes = {"dynamic shapes": len(self.dynamic), "shapes not stated": self.undescribed}
        return {"nodes": len(self.nodes), **counts, **shapes}


def audit(path: str | Path) -> NpuAudit:
    """Look each operator of an ONNX file up in the table of the NPU's, and look for shapes that are not fixed.

    A call of a function that the file defines is unknown; its body is not looked at.

    Parameters
    ----------
    path : path
        An ONNX file of any origin; weights beside it are not read.

    Raises
    ------
    InputError
        If there is no such file, it is no ONNX model, or larger than one can be.
    """
    path = Path(path)
    if path.is_file() and path.stat().st_size >= LIMIT:
        raise InputError(f"{path} has 2 GiB or more, which no ONNX file can; save its weights as external data.")
    model = assignment.read_onnx(path)
    if not model.ir_version or not model.graph.node:
        raise InputError(f"{path} holds no ONNX graph; export it again.")
    nodes = [*assignment.all_nodes(model.graph)]
    graphs = [model.graph, *(part for node in nodes for part in assignment.parts_of(node))]
    values = [value for graph in graphs for value in (*graph.input, *graph.output, *graph.value_info)]
    stated = {value.name for value in values}
    results = [name for node in nodes for name in node.output if name]
    dynamic = tuple(value.name for value in values if not _is_fixed(value.type))
    return NpuAudit(tuple(map(_audited, nodes)), dynamic, sum(name not in stated for name in results))


def disagreements(audited: NpuAudit, placed: assignment.Assignment) -> list[dict[str, str]]:
    """Return a row for every node of which table and compiler disagree, in the order of the file.

    A node that the compiler did not place differs too, and so does one that the table does not know.

    Raises
    ------
    InputError
        If the two are not of the same file.
    """
    if [node.op for node in audited.nodes] != [node.op for node in placed.nodes]:
        raise InputError("The audit and the assignment are of different files; make both of the same one.")
    return [
        {"name": found.name, "op": node.op, "module": node.module, "table": node.kind}
        | {"compiler": found.place, "reason": found.reason}
        for node, found in zip(audited.nodes, placed.nodes, strict=True)
        if found.place not in EXPECTED[node.kind]
    ]


@cache
def operator_table() -> Mapping[str, Any]:
    """Return ``data/npu_operators.json``, with its source."""
    return read_json(TABLE, "table of the NPU's operators")


def _audited(node: Any) -> AuditedNode:
    domain = "" if node.domain == "ai.onnx" else node.domain
    about = operator_table()["operators"].get(f"{domain}:{node.op_type}" if domain else node.op_type, {})
    notes = [
        f"{key}: {about[key]}" if key in ("published", "compiler") else about[key] for key in NOTES if key in about
    ]
    path, kind, removed_by = assignment.module_path(node), about.get("class", "unknown"), about.get("removed_by", "")
    return AuditedNode(node.name, node.op_type, domain, path, kind, "; ".join(notes), removed_by)


def _is_fixed(kind: Any) -> bool:
    """Return whether a value is a tensor whose every dimension is a number."""
    tensor = kind.tensor_type  # of another kind of value it has no shape
    return tensor.HasField("shape") and all(dim.HasField("dim_value") for dim in tensor.shape.dim)


COMPILER = "onnxruntime-qnn"


@dataclass(frozen=True)
class NpuFit:
    """Every file of a delivery, and the package's own model in one piece, against the table and the compiler.

    Attributes
    ----------
    files : mapping of str to Path
        The ONNX files of the delivery, by the name of the part.
    delivered : mapping of str to NpuAudit
        Of each file.
    uncut : NpuAudit
        Of the package's own export, whose shapes depend on the data.
    compiler, no_compiler : str
        Name of the backend that compiles for the NPU, and why it is not here; empty if it is.
    disagreements : list of dict
        Nodes of which table and compiler say different things, and what each says.
    """

    files: Mapping[str, Path]
    delivered: Mapping[str, NpuAudit]
    uncut: NpuAudit
    compiler: str
    no_compiler: str
    disagreements: list[dict[str, str]]

    def blocked(self) -> list[AuditedNode]:
        """Return the nodes of the delivery that block the NPU, or that the table does not know."""
        return [node for one in self.delivered.values() for node in (*one.of("blocking"), *one.of("unknown"))]

    @property
    def dynamic(self) -> int:
        """How many values of the delivery have a shape that is not fixed, or that its file does not state."""
        return sum(len(one.dynamic) + one.undescribed for one in self.delivered.values())

    def rows(self) -> list[dict[str, Any]]:
        """Return a row for each file: nodes by class."""
        audits = {**self.delivered, "the package's model, not cut": self.uncut}
        return [{"graph": name, **one.as_dict()} for name, one in audits.items()]

    def submitted(self, device: str) -> tuple[Any, str]:
        """Submit the decoder of the smallest bucket to Qualcomm AI Hub: the job, and why there is none."""
        decoders = [path for name, path in self.files.items() if name.startswith("decoder")]
        reason = hub_available() or ("" if decoders else "the delivery has no ONNX file")
        return (None, reason) if reason else (submit(decoders[0], device), "")


def audit_delivery(speaker: TwoStages, kokoro: Kokoro, voice: str, seed: int) -> NpuFit:
    """Audit every ONNX file of a delivery, and the package's own model exported as it is; see `npu_audit`."""
    parts = speaker.contract.parts.items()
    files = {name: speaker.folder / part.file for name, part in parts if part.file.endswith(".onnx")}
    audits = {name: audit(path) for name, path in files.items()}
    qnn = Qnn(COMPILER)
    reason = absence(qnn) or ""
    placed = {} if reason else {name: assignment.assignment(path, qnn) for name, path in files.items()}
    different = [one for name, found in placed.items() for one in disagreements(audits[name], _whole(found))]
    return NpuFit(files, audits, uncut_audit(kokoro, voice, seed), COMPILER, reason, different)


def uncut_audit(kokoro: Kokoro, voice: str, seed: int) -> NpuAudit:
    """Audit the package's own model, exported whole by the tracing exporter."""
    from kokoro.model import KModelForONNX

    tensors = capture(kokoro, "Hello world.", voice, seed=seed).tensors
    with patched(kokoro.model, ("custom_stft",)), TemporaryDirectory() as room:
        inputs = {"input_ids": tensors["ids"], "ref_s": tensors["ref_s"]}
        return audit(_whole(assignment.legacy_onnx(KModelForONNX(kokoro.model), inputs, Path(room) / "model.onnx")))


def _whole(found: Any) -> Any:
    """Return what was made; refuse a failure, which leaves nothing to audit."""
    if isinstance(found, Failure):
        raise InputError(f"There is nothing to audit: {found}")
    return found
