"""Core ML's files on any machine: read back, and executed operator by operator without Core ML."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np

from kokoro_nb.backends.artefacts import Add, FileProgram, NamedArrays
from kokoro_nb.backends.base import Artifact, Failure, loadable, quietly
from kokoro_nb.backends.coreml import CoreMl
from kokoro_nb.backends.coreml.conversion import Interface, interface
from kokoro_nb.backends.coreml.coreml_private import read_program
from kokoro_nb.backends.signature import Arrays
from kokoro_nb.errors import InputError, one_line
from kokoro_nb.traces.trace import Keep

if TYPE_CHECKING:
    from kokoro_nb.backends.mil.interpreter import Interpreter, Observer

WEIGHTS = Path("Data") / "com.apple.CoreML" / "weights"


@dataclass(frozen=True)
class SavedProgram:
    """A program read from a ``.mlpackage``.

    Attributes
    ----------
    spec : coremltools.proto.Model_pb2.Model
        Its specification, with the description and the metadata of the model.
    program : coremltools.converters.mil.Program
        Its functions, with the weights.
    """

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
    try:
        with quietly():
            program = read_program(spec, str(path / WEIGHTS))
            program.functions[spec.description.defaultFunctionName or "main"]
    except Exception as error:
        raise InputError(f"The program of {path} cannot be read ({one_line(error)}); export it again.") from error
    return SavedProgram(spec, program)


@dataclass(frozen=True)
class ReferenceProgram(FileProgram):
    """A saved program with what executes it; what comes out has the dtype and shape that the file gives it."""

    interpreter: "Interpreter"
    interface: Interface

    how: ClassVar[str] = "the file, operator by operator"

    def computed(self, arrays: NamedArrays, observe: "Observer | None" = None) -> list[np.ndarray]:
        """Return the outputs: see `FileProgram`; `observe` is called for every operator, see `Interpreter.run`.

        Raises
        ------
        InputError
            If an index in the program is out of range.
        """
        results = self.interpreter.run(self.interface.to_file(arrays), observe)
        return [results[feature] for feature in self.interface.outputs]

    def captured(self, arrays: NamedArrays, places: Mapping[str, Any], add: Add, keep: Keep) -> list[np.ndarray]:
        """Hand on what operators compute: see `FileProgram`; float16 is captured as float16."""
        wanted = {value: name for name, value in places.items()}

        def observe(_type: str, _name: str, _inputs: Mapping[str, Any], results: Mapping[str, Any]) -> None:
            for value in results.keys() & wanted.keys():
                add(wanted[value], results[value])

        return self.computed(arrays, observe)


@dataclass(frozen=True)
class CoreMlReference:
    """The file that `CoreMl` writes, read back and executed operator by operator, on any machine.

    Attributes
    ----------
    name : str
        Key in the registry.
    converter : CoreMl
        Writes the file; the two share one artefact.
    arithmetic : str
        What numbers are computed and stored in: ``float32`` or ``strict``, see `rounding.Arithmetic`.

    Notes
    -----
    ``coreml-reference``: the file of ``coreml``, which is float16; an operator computes in float32 on its float16
    inputs and weights, and its result is rounded to float16, once.

    ``coreml-reference-strict``: the same file; every product, partial sum and other step inside an operator is rounded
    to float16 as well.

    ``coreml-reference-float32``: the file of ``coreml-float32``; every operator computes in float32.

    Whether Apple's hardware lies between the first two, nobody has shown: `Arithmetic` says what is known. An index out
    of range, which Core ML leaves undefined, is an error here. What the converter changes is in the file, and so in the
    result: see `CoreMl`.
    """

    name: str
    converter: CoreMl
    arithmetic: Literal["float32", "strict"] = "float32"

    own_dtypes: ClassVar[bool] = True  # float32, float16, int32: no others come out

    def available(self) -> str | None:
        """Return None if models can be converted and saved here, else the reason why not, in one sentence."""
        return self.converter.available()

    def executes(self) -> str | None:
        """Return None: the file runs on any machine."""
        return None

    def export(self, module: Any, inputs: Arrays, folder: str | Path | None = None) -> Artifact | Failure:
        """Have the converter export `module`: see `base.Backend.export`."""
        return replace(self.converter.export(module, inputs, folder), backend=self.name)

    def load(self, artifact: Artifact | Failure) -> ReferenceProgram:
        """Read the file.

        Raises
        ------
        InputError
            Also if the file is damaged, or holds an operator that cannot be executed.
        """
        from kokoro_nb.backends.mil.interpreter import Interpreter
        from kokoro_nb.backends.mil.rounding import Arithmetic

        artifact = loadable(artifact, self.name)
        assert artifact.path is not None
        saved = load_program(artifact.path)
        interpreter = Interpreter(saved.program, Arithmetic(self.arithmetic))
        return ReferenceProgram(artifact, interpreter, interface(saved.spec, artifact))
