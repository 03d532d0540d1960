"""Python's search for garbage, in the processes of the project."""

import gc


def collect_rarely() -> None:
    """Search for garbage after so many new objects that an export is not searched again and again.

    An export makes millions of objects that stay as long as it does, and with Python's own thresholds a sixth of the
    time of lowering a decoder goes into searches that find little. Garbage is still found within each export, so that
    it needs no more memory. Holds for the whole process: of a process that is not ours, its owner decides.
    """
    gc.set_threshold(50_000, 10, 20)
