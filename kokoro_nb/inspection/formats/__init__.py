"""Files other than ONNX: each read, run, and its operators computed again in float64."""

from kokoro_nb.inspection.formats.reading import FORMATS, read_program

__all__ = ["FORMATS", "read_program"]
