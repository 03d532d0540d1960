"""Files other than ONNX: each read, run, and its operators computed again in float64."""

from pathlib import Path

from kokoro_nb.errors import InputError, absent_package
from kokoro_nb.inspection.captured_program import CapturedProgram

FORMATS = (".pt2", ".pte", ".mlpackage", ".mlmodel")


def read_program(path: str | Path) -> CapturedProgram:
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
        if path.suffix == ".pt2":
            from kokoro_nb.inspection.formats.pt2_file import Pt2File as File
        elif path.suffix == ".pte":
            from kokoro_nb.inspection.formats.pte_file import PteFile as File  # type: ignore[assignment]
        else:
            from kokoro_nb.inspection.formats.mil_file import MilFile as File  # type: ignore[assignment]
        return File.read(path)
    except ImportError as error:
        raise absent_package(error) or InputError(f"{path} cannot be read here ({error}).") from error
