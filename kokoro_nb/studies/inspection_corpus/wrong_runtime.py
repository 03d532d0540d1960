"""A runtime that computes one value of a graph wrongly, wherever that value is an output."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import numpy as np

from kokoro_nb.inspection import onnx_session

MODULES = ("onnx_session", "node_groups", "file_run", "one_operator", "blame", "whole_file")


@contextmanager
def wrong_runtime(name: str, change: Callable[[np.ndarray], np.ndarray]) -> Iterator[None]:
    """Have ONNX Runtime give something else for the value `name`, in the whole graph as in a part of it."""
    real = onnx_session.run_session

    def spoilt(session: Any, inputs: Mapping[str, np.ndarray], names: Any = None) -> dict[str, Any]:
        results = real(session, inputs, names)
        return {key: change(np.array(value)) if key == name else value for key, value in results.items()}

    places = [patch(f"kokoro_nb.inspection.{module}.run_session", spoilt) for module in MODULES]
    for place in places:
        place.start()
    try:
        yield
    finally:
        for place in places:
            place.stop()
