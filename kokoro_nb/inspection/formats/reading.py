"""Which reader takes a file, by the end of its name."""

from pathlib import Path
from typing import Any

from kokoro_nb.errors import InputError
from kokoro_nb.inspection.formats.runnable_program import RunnableProgram

FORMATS = (".pt2", ".pte", ".mlpackage", ".mlmodel")


def read_program(path: str | Path) -> RunnableProgram:
    """Read a ``.pt2``, ``.pte``, ``.mlpackage`` or ``.mlmodel``.

    Raises
    ------
    InputError
        In one sentence, if it is absent, cut off, damaged or something else, or the runtime is not installed.
    """
    path = Path(path)
    if not path.exists():
        raise InputError(f"{path} does not exist; give a model file.")
    try:
        return _reader(path.suffix)(path)
    except ImportError as error:
        raise InputError(f"{path} cannot be read here ({error}); install what reads it.") from error


def _reader(suffix: str) -> Any:
    if suffix == ".pt2":
        from kokoro_nb.inspection.formats.pt2_file import Pt2File

        return Pt2File.read
    if suffix == ".pte":
        from kokoro_nb.inspection.formats.pte_file import PteFile

        return PteFile.read
    from kokoro_nb.inspection.formats.mil_file import MilFile

    return MilFile.read
