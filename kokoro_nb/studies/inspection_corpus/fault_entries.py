"""Three hundred files with a fault in each, as data: what was planted, where, and how it has to be named.

What the file itself does not tell, because another constant would be as lawful, is looked for against the file without
the fault; the rest in the file alone.
"""

import hashlib
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

import numpy as np

from kokoro_nb.errors import InputError
from kokoro_nb.inspection import InspectionReport, inspect
from kokoro_nb.storage import digest
from kokoro_nb.studies.diagnosis_corpus import healthy_programs as programs
from kokoro_nb.studies.inspection_corpus import file_writers as writers
from kokoro_nb.studies.inspection_corpus.graph_faults import plant_onnx
from kokoro_nb.studies.inspection_corpus.mil_faults import plant_mil
from kokoro_nb.studies.inspection_corpus.pt2_faults import plant_pt2
from kokoro_nb.studies.inspection_corpus.pte_faults import plant_pte
from kokoro_nb.studies.inspection_corpus.zoo_entries import ZooFile

Seen = Literal["against", "alone", "budget"]
WANTED = 300
BASES: dict[str, ZooFile] = {
    one.name: one
    for one in (
        ZooFile(writers.dynamo_onnx, programs.hifigan_like),
        ZooFile(writers.dynamo_onnx, programs.attention),
        ZooFile(writers.dynamo_onnx, programs.whisper_encoder),
        ZooFile(writers.legacy_onnx, programs.adaptive_block),
        ZooFile(writers.legacy_onnx, programs.bidirectional_encoder),
        ZooFile(writers.optimised_onnx, programs.whisper_encoder),
        ZooFile(writers.float16_onnx, programs.hifigan_like),
        ZooFile(writers.qdq_onnx, programs.hifigan_like),
        ZooFile(writers.qdq_onnx, programs.conformer_convolution),
        ZooFile(writers.qoperator_onnx, programs.hifigan_like),
        ZooFile(writers.dynamic_onnx, programs.whisper_encoder),
        ZooFile(writers.four_bit_onnx, programs.attention),
        ZooFile(writers.pt2, programs.attention),
        ZooFile(writers.pt2, programs.hifigan_like),
        ZooFile(writers.portable_pte, programs.attention),
        ZooFile(writers.portable_pte, programs.adaptive_block),
        ZooFile(writers.xnnpack_pte, programs.attention),
        ZooFile(writers.xnnpack_pte, programs.hifigan_like),
        ZooFile(writers.quantised_pte, programs.hifigan_like),
        ZooFile(writers.quantised_pte, programs.conformer_convolution),
        ZooFile(writers.float32_mlpackage, programs.attention),
        ZooFile(writers.float16_mlpackage, programs.hifigan_like),
        ZooFile(writers.quantised_mlpackage, programs.attention),
    )
}
PLANTERS = {".onnx": plant_onnx, ".pt2": plant_pt2, ".pte": plant_pte, ".mlpackage": plant_mil}
"""What plants a fault in a file of each format: takes the healthy file, a path, the kind and a generator."""
KINDS: dict[str, Seen] = {
    "constant": "against",
    "one_channel": "against",
    "attribute": "against",
    "axis": "against",
    "permuted_scale": "against",
    "zero_point": "against",
    "overflowing_cast": "alone",
    "infinity_less_infinity": "alone",
    "masked": "alone",
    "saturation": "budget",
}
SEEDS = 5


@dataclass(frozen=True)
class PlantedFault:
    """A fault in a file.

    Attributes
    ----------
    base : str
        Name of the healthy file.
    kind : str
        What is wrong.
    seed : int
        Draws where.
    """

    base: str
    kind: str
    seed: int

    @property
    def name(self) -> str:
        """File, kind and seed."""
        return f"{self.base}-{self.kind}-{self.seed}"

    @property
    def seen(self) -> Seen:
        """Where it has to be named: of integers that saturate there is a budget for ONNX alone."""
        seen = KINDS[self.kind]
        return "against" if seen == "budget" and self.healthy.suffix != ".onnx" else seen

    def planted(self, path: Path) -> str:
        """Write the file with the fault, and return the node that has to be named; empty if it has no such place."""
        return PLANTERS[self.healthy.suffix](self.healthy, path, self.kind, np.random.default_rng(self.seed))

    def path(self, folder: Path) -> Path:
        """Return where it is written in a folder."""
        return folder / f"planted{self.healthy.suffix}"

    @property
    def healthy(self) -> Path:
        """The file without the fault."""
        return _written(self.base)[0]

    @property
    def inputs(self) -> dict[str, Any]:
        """What goes into it."""
        return _written(self.base)[1]

    def inspected(self, path: Path) -> InspectionReport:
        """Inspect the file with the fault, where it has to be against the file without it."""
        return inspect(path, self.inputs, against=self.healthy if self.seen == "against" else None)


@lru_cache
def _written(base: str) -> tuple[Path, dict[str, Any]]:
    folder = Path(tempfile.mkdtemp(prefix="kokoro_nb_zoo_"))
    path, inputs = BASES[base].written(folder)
    assert inputs is not None
    return path, inputs


def named(fault: PlantedFault, report: InspectionReport) -> str:
    """Return the node that an inspection names where this kind of fault has to be named; empty if it names none."""
    if fault.seen == "budget":
        cut = [one for one in report.budget.values if one.clipped > 0]
        return cut[int(np.argmax([one.clipped for one in cut]))].key if cut else ""
    kinds = ("structure",) if fault.seen == "against" else ("nonfinite",)
    return next((one.key for one in report.findings if one.kind in kinds), "")


def possible(folder: Path, wanted: int = WANTED) -> Iterator[PlantedFault]:
    """Yield as many faults as are wanted, kind by kind and file by file, of those for which a file has a place.

    Raises
    ------
    InputError
        If there are fewer.
    """
    seen: set[tuple[str, str, str]] = set()
    count = 0
    for seed in range(SEEDS * 4):
        for kind in KINDS:
            for base in BASES:
                fault = PlantedFault(base, kind, seed)
                path = fault.path(folder)
                key = fault.planted(path)
                about = (base, f"{kind} {key}", _contents(path) if key else "")
                if not key or about in seen:
                    continue
                seen.add(about)
                yield fault
                count += 1
                if count == wanted:
                    return
    raise InputError(f"Only {count} different faults can be planted, {wanted} are wanted.")


def _contents(path: Path) -> str:
    files = sorted(one for one in path.rglob("*") if one.is_file()) if path.is_dir() else [path]
    return digest(*(hashlib.sha256(one.read_bytes()).hexdigest() for one in files))
