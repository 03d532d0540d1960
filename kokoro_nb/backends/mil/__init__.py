"""Core ML programs on any machine: read back from their files, and executed operator by operator."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kokoro_nb.backends.base import quietly
from kokoro_nb.backends.coreml.coreml_private import read_program
from kokoro_nb.errors import InputError, one_line

WEIGHTS = Path("Data") / "com.apple.CoreML" / "weights"


@dataclass(frozen=True)
class SavedProgram:
    """A program read from a ``.mlpackage``.

    Attributes
    ----------
    path : Path
        The package.
    spec : coremltools.proto.Model_pb2.Model
        Its specification, with the description and the metadata of the model.
    program : coremltools.converters.mil.Program
        Its functions, with the weights.
    """

    path: Path
    spec: Any
    program: Any


def load_program(path: str | Path) -> SavedProgram:
    """Read a ``.mlpackage``.

    Parameters
    ----------
    path : path
        The package, a folder.

    Raises
    ------
    InputError
        If it is no ``.mlpackage``, is cut off or damaged, or holds a neural network, not a program.
    """
    path = Path(path)
    spec = _spec(path)
    try:
        with quietly():
            program = read_program(spec, str(path / WEIGHTS))
            program.functions[spec.description.defaultFunctionName or "main"]
    except Exception as error:
        raise InputError(f"The program of {path} cannot be read ({one_line(error)}); export it again.") from error
    return SavedProgram(path, spec, program)


def _spec(path: Path) -> Any:
    """Read the specification of a package.

    Raises
    ------
    InputError
        As `load_program`.
    """
    if not (path / "Manifest.json").is_file():
        raise InputError(f"{path} is no Core ML package; give a folder that ends in .mlpackage.")
    try:
        with quietly():
            import coremltools as ct

            spec = ct.utils.load_spec(str(path))
    except Exception as error:
        raise InputError(f"The Core ML package {path} is damaged ({one_line(error)}); export it again.") from error
    kind = spec.WhichOneof("Type")
    if kind != "mlProgram":
        held = f"a Core ML model of kind {kind or 'none'}, not an ML program"
        raise InputError(f"{path} holds {held}; convert it to an mlprogram.")
    return spec
