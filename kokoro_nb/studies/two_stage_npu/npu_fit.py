"""Which operators of a delivery a phone's NPU takes: by a table, by the compiler, and on a real device."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from kokoro_nb.backends.base import Failure, absence
from kokoro_nb.backends.qnn import Qnn
from kokoro_nb.backends.qnn.assignment import assignment, legacy_onnx
from kokoro_nb.delivery.hub import hub_available, submit
from kokoro_nb.delivery.pipeline import TwoStages
from kokoro_nb.errors import InputError
from kokoro_nb.models.case import capture
from kokoro_nb.models.kokoro import Kokoro
from kokoro_nb.models.patches import patched
from kokoro_nb.studies.two_stage_npu.npu_audit import AuditedNode, NpuAudit, NpuDisagreement, audit, disagreements

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
    disagreements : tuple of NpuDisagreement
        Nodes of which table and compiler say different things.
    """

    files: Mapping[str, Path]
    delivered: Mapping[str, NpuAudit]
    uncut: NpuAudit
    compiler: str
    no_compiler: str
    disagreements: tuple[NpuDisagreement, ...]

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
    placed = {} if reason else {name: assignment(path, qnn) for name, path in files.items()}
    different = tuple(one for name, found in placed.items() for one in disagreements(audits[name], _whole(found)))
    return NpuFit(files, audits, uncut_audit(kokoro, voice, seed), COMPILER, reason, different)


def uncut_audit(kokoro: Kokoro, voice: str, seed: int) -> NpuAudit:
    """Audit the package's own model, exported whole by the tracing exporter."""
    from kokoro.model import KModelForONNX

    tensors = capture(kokoro, "Hello world.", voice, seed=seed).tensors
    with patched(kokoro.model, ("custom_stft",)), TemporaryDirectory() as room:
        inputs = {"input_ids": tensors["ids"], "ref_s": tensors["ref_s"]}
        return audit(_whole(legacy_onnx(KModelForONNX(kokoro.model), inputs, Path(room) / "model.onnx")))


def _whole(found: Any) -> Any:
    """Return what was made; refuse a failure, which leaves nothing to audit."""
    if isinstance(found, Failure):
        raise InputError(f"There is nothing to audit: {found}")
    return found
