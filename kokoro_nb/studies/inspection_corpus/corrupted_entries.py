"""A hundred files that are damaged, of all formats: what is said of them has to be a sentence or a report."""

import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from kokoro_nb.studies.diagnosis_corpus.healthy_programs import adaptive_block
from kokoro_nb.studies.inspection_corpus import damaged_bytes as plain
from kokoro_nb.studies.inspection_corpus import damaged_graphs as graphs
from kokoro_nb.studies.inspection_corpus import damaged_programs as programs
from kokoro_nb.studies.inspection_corpus import file_writers as writers

Damage = Callable[[Path, int], Path]
WRITERS = {
    ".onnx": writers.legacy_onnx,
    ".pt2": writers.pt2,
    ".pte": writers.portable_pte,
    ".mlpackage": writers.float32_mlpackage,
}


@dataclass(frozen=True)
class CorruptedFile:
    """One file.

    Attributes
    ----------
    suffix : str
        Format of the healthy file.
    damage : callable
        Takes its path and a number, damages it, and returns the path to inspect.
    number : int
        Which of the damages of this kind.
    """

    suffix: str
    damage: Damage
    number: int = 0

    @property
    def kind(self) -> str:
        """Format and damage."""
        return f"{self.suffix[1:]} {self.damage.__name__}"

    @property
    def name(self) -> str:
        """Format, damage and number."""
        return f"{self.suffix[1:]}-{self.damage.__name__}-{self.number}"

    def written(self, folder: Path) -> Path:
        """Write it, and return its path."""
        return self.damage(healthy_copy(self.suffix, folder), self.number)


def healthy_copy(suffix: str, folder: Path) -> Path:
    """Write a healthy file of a format, which is made once in a process; return its path."""
    if suffix == ".mlmodel":  # what a package holds, without the package
        package = healthy_copy(".mlpackage", folder)
        data = plain.main_part(package).parent
        shutil.copytree(data / "weights", folder / "weights")
        return Path(shutil.copy(data / "model.mlmodel", folder / "model.mlmodel"))
    source = Path(_room().name, suffix[1:], f"model{suffix}")
    if not source.exists():
        source.parent.mkdir()
        WRITERS[suffix](*adaptive_block(0), source.parent).rename(source)
    path = folder / source.name
    return Path(shutil.copytree(source, path) if source.is_dir() else shutil.copy(source, path))


@cache
def _room() -> "tempfile.TemporaryDirectory[str]":
    return tempfile.TemporaryDirectory()


FORMATS = (".onnx", ".pt2", ".pte", ".mlpackage", ".mlmodel")
_TIMES: tuple[tuple[tuple[str, ...], Damage, int], ...] = (
    (FORMATS, plain.cut_off, 3),
    (FORMATS, plain.bits_flipped, 3),
    (FORMATS, plain.empty, 1),
    (FORMATS[:3], plain.text, 1),
    (FORMATS, plain.folder, 1),
    (FORMATS, plain.wrong_extension, 1),
    ((".onnx",), graphs.weights_missing, 1),
    ((".onnx",), graphs.weights_shorter, 1),
    ((".onnx",), graphs.weights_elsewhere, 1),
    ((".onnx",), graphs.unknown_operator, 1),
    ((".onnx",), graphs.unknown_domain, 1),
    ((".onnx",), graphs.unknown_opset, 2),
    ((".onnx",), graphs.cyclic_graph, 1),
    ((".onnx",), graphs.nan_constants, 1),
    ((".onnx",), graphs.given_twice, 1),
    ((".onnx",), graphs.contradicting_types, 2),
    ((".onnx",), graphs.contradicting_shapes, 1),
    ((".onnx",), graphs.weight_without_end, 2),
    ((".onnx",), graphs.input_without_end, 1),
    ((".onnx",), graphs.shape_without_end, 7),
    ((".onnx",), graphs.endless_loop, 2),
    ((".onnx",), graphs.nested_deep, 2),
    ((".onnx",), graphs.function_of_itself, 1),
    ((".pt2", ".mlpackage"), programs.bomb, 2),
    ((".pt2",), programs.member_missing, 2),
    ((".pt2",), programs.torch_weights_of_nan, 1),
    ((".pt2",), programs.torch_graph_changed, 3),
    ((".mlpackage",), programs.package_weights_missing, 1),
    ((".mlpackage",), programs.package_weights_shorter, 1),
    ((".mlpackage",), programs.package_weights_without_end, 2),
    ((".mlpackage",), programs.package_program_changed, 5),
    ((".pte",), programs.executorch_program_changed, 5),
)
CORRUPTED: tuple[CorruptedFile, ...] = tuple(
    CorruptedFile(suffix, damage, number)
    for suffixes, damage, count in _TIMES
    for suffix in suffixes
    for number in range(count)
)
