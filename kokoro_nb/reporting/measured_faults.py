"""Faults in what a notebook measures: in the tensors that its measures are given, and in the results of its study.

A fault in a measure changes what the measuring functions of `MEASURES` are given as the candidate; limits and
references stay. A fault in a result changes what a study returned, and no measure sees it: a count that is one off, a
name that is another's, a file that is not there. A result's own limits (`LIMITS`) stay.
"""

import dataclasses
import importlib
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from enum import Enum
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from kokoro_nb.backends.base import Artifact, Failure

Pair = Callable[[np.ndarray, np.ndarray], np.ndarray]
Value = Callable[[Any], Any]


def _one(y: np.ndarray, value: float) -> np.ndarray:
    changed = y.copy()
    changed.flat[y.size // 2] = value
    return changed


def _dropped(y: np.ndarray) -> np.ndarray:
    """Return it without its last eighth of channels or, of one channel, without an eighth of its samples."""
    changed = y.copy()
    part = changed if y.ndim < 2 else np.moveaxis(changed, -2 if y.shape[-2] > 1 else -1, 0)
    part[-max(1, len(part) // 8) :] = 0
    return changed


NAN, NAN_FIGURES = "NaN in one element", "figures that are NaN"  # tried last: they turn nearly everything red
MEASURE_FAULTS: Mapping[str, Pair] = {
    "eight times as loud": lambda reference, y: (y * 8).astype(y.dtype),
    "nothing differs": lambda reference, y: reference.astype(y.dtype),
    "another's result": lambda reference, y: -reference[..., ::-1] if reference.ndim else -reference,
    "one step late": lambda reference, y: np.roll(y, 1, axis=-1) if y.ndim else y,
    "a channel dropped": lambda reference, y: _dropped(y) if y.size else y,
    "no phase": lambda reference, y: np.abs(y),
    "scaled by 1.02": lambda reference, y: (y * 1.02).astype(y.dtype),
    "one element short": lambda reference, y: y[..., :-1] if y.ndim and y.shape[-1] > 1 else y,
    NAN: lambda reference, y: _one(y, np.nan) if y.size else y,
}

# function -> position of the reference and of the candidate; where they are one, what is measured stands alone
MEASURES: Mapping[str, tuple[int, int]] = {
    "kokoro_nb.traces.parity.compare": (0, 1),
    "kokoro_nb.traces.statistics.describe": (0, 0),
    "kokoro_nb.listening.comparison.compare_audio": (0, 1),
    "kokoro_nb.listening.waveform.rms_ratio_db": (0, 1),
    "kokoro_nb.listening.waveform.rms": (0, 0),
    "kokoro_nb.listening.spectrum.log_spectral_distance": (0, 1),
    "kokoro_nb.listening.spectrum.band_energy_ratio_db": (0, 1),
    "kokoro_nb.listening.spectrum.spectral_flatness": (0, 0),
    "kokoro_nb.listening.perceived_quality.perceived_quality": (0, 1),
    "kokoro_nb.listening.spectral_agreement.spectral_agreement": (0, 2),
    "kokoro_nb.listening.joins.short_time_level": (0, 0),
}
DEMANDED = ("limit", "tolerance", "floor", "bound", "expected", "limits", "distance_limit", "inputs_limit")
LIMITS = frozenset((*DEMANDED, "given_length", "norms"))
"""Fields of a result that say what is demanded or was set, and not what was measured."""


def _count(value: Any) -> Any:
    return value + 1 if _is_count(value) else value


def _no_count(value: Any) -> Any:
    return value * 0 if _is_count(value) or (isinstance(value, np.ndarray) and value.dtype.kind in "iu") else value


def _name(value: Any) -> Any:
    return f"another {value}" if isinstance(value, str) and value and not isinstance(value, Enum) else value


def _missing(value: Any) -> Any:
    if isinstance(value, Path):
        return value.with_name("missing")
    if isinstance(value, list | tuple) and len(value) > 1 and not hasattr(value, "_fields"):
        return type(value)(value[:-1])
    return value


def _doubled(value: Any) -> Any:
    return type(value)([*value, value[-1]]) if type(value) in (list, tuple) and value else value


def _exchanged(value: Any) -> Any:
    """Put each row in another's place."""
    if isinstance(value, dict):
        return dict(zip(value, reversed(value.values()), strict=True))
    return value[::-1] if type(value) in (list, tuple) else value


def _added(value: Any) -> Any:
    """Put one finding where none was: an empty tuple or list."""
    return type(value)(["an operator"]) if type(value) in (list, tuple) and not value else value


def _graded(value: Any, step: float) -> Any:
    """Return it with each row's figures `step` times as large as they would be in the row before, over four rows."""
    if isinstance(value, dict):
        return dict(zip(value, _graded(list(value.values()), step), strict=True))
    if type(value) in (list, tuple):
        return type(value)(_times(one, step ** (place % 4)) for place, one in enumerate(value))
    return value


def _times(value: Any, factor: float) -> Any:
    return _changed(value, lambda one: one * factor if _is_figure(one) else one, 0)


def _infinite(value: Any) -> Any:
    return _one(value, np.inf) if isinstance(value, np.ndarray) and value.dtype.kind == "f" and value.size else value


FAILURE = Failure("this backend", "run", "RuntimeError", "it failed")


def _failed(value: Any) -> Any:
    """Return a result with a field for a failure, which is empty, as one that failed; and an artefact as a failure."""
    if isinstance(value, Artifact):
        return FAILURE
    if not dataclasses.is_dataclass(value) or isinstance(value, type) or vars(value).get("failure", "") is not None:
        return value
    copy = object.__new__(type(value))
    for name, part in (vars(value) | {"failure": FAILURE}).items():
        object.__setattr__(copy, name, part)
    return copy


RESULT_FAULTS: Mapping[str, Value] = {
    "figures eight times as large": lambda value: value * 8 if _is_figure(value) else value,
    "figures a hundredth": lambda value: value / 100 if _is_figure(value) else value,
    "figures one higher": lambda value: value + 1 if _is_figure(value) else value,
    "figures of other sign": lambda value: -value if _is_figure(value) else value,
    "one name for all": lambda value: "the same" if isinstance(_name(value), str) else value,
    "an export that fails": _failed,
    "each row eight times the last": lambda value: _graded(value, 8.0),
    "each row an eighth of the last": lambda value: _graded(value, 1 / 8),
    "counts off by one": _count,
    "no counts": _no_count,
    "counts a hundred times as large": lambda value: value * 100 if _is_count(value) else value,
    "yes for no": lambda value: not value if isinstance(value, bool | np.bool_) else value,
    "another's name": _name,
    "rows exchanged": _exchanged,
    "the last row or file missing": _missing,
    "a row twice": _doubled,
    "something where nothing was": _added,
    "nothing where something was": lambda value: type(value)() if type(value) in (list, tuple, dict) else value,
    "lists without rows": lambda value: type(value)() if type(value) in (list, tuple) else value,
    "infinity in one element": _infinite,
    "no result": lambda value: None if dataclasses.is_dataclass(value) and not isinstance(value, type) else value,
    NAN_FIGURES: lambda value: value * np.nan if _is_figure(value) else value,
    "a failure": lambda value: "it failed" if value is None else value,
}
# those of results first, which have next to nothing executed again
_CHEAP, _DEAR = ([one for one in known if one not in (NAN, NAN_FIGURES)] for known in (RESULT_FAULTS, MEASURE_FAULTS))
FAULTS = (*_CHEAP, *_DEAR, NAN, NAN_FIGURES)
DEPTH = 7  # levels of a result that a fault goes down
_ACTIVE: list[Pair] = []  # the fault that is planted, at most one
_CALLS = [0]  # how often a measure was called


def measured_calls() -> int:
    """Return how often a measuring function has been called since `install`."""
    return _CALLS[0]


@contextmanager
def planted(fault: str) -> Iterator[None]:
    """Have every measuring function given what a fault of `MEASURE_FAULTS` makes of its candidate, inside."""
    _ACTIVE.append(MEASURE_FAULTS[fault])
    try:
        yield
    finally:
        _ACTIVE.clear()


def install() -> None:
    """Put the wrappers in, in every module that holds a function of `MEASURES`; without a fault they change nothing."""
    for name, (first, second) in MEASURES.items():
        module, _, function = name.rpartition(".")
        original = getattr(importlib.import_module(module), function)
        if not hasattr(original, "measures"):
            _replace(original, _measuring(original, first, second))
        else:  # a module that was imported since holds the original
            _replace(original.measures, original)


def changed_result(value: Any, fault: str) -> Any:
    """Return a copy of a study's result with a fault of `RESULT_FAULTS` in every part of it that it applies to.

    What is no plain data (a module, a tensor, an open program) is handed on as it is.
    """
    return _changed(value, RESULT_FAULTS[fault], 0)


def _changed(value: Any, fault: Value, depth: int) -> Any:
    if depth > DEPTH:
        return value
    if dataclasses.is_dataclass(value) and not isinstance(value, type) and hasattr(value, "__dict__"):
        whole = fault(value) if depth or fault is _failed else value
        if whole is not value:
            return whole
        copy = object.__new__(type(value))
        for name, part in vars(value).items():
            object.__setattr__(copy, name, part if name in LIMITS else _changed(part, fault, depth + 1))
        return copy
    if isinstance(value, dict | MappingProxyType):
        held = {k: v if k in LIMITS else _changed(v, fault, depth + 1) for k, v in value.items()}
        return fault(held)
    if type(value) in (list, tuple):
        return fault(type(value)(_changed(one, fault, depth + 1) for one in value))
    plain = value is None or isinstance(value, bool | int | float | str | np.generic | np.ndarray | Path)
    return fault(value) if plain else value


def _is_count(value: Any) -> bool:
    return isinstance(value, int | np.integer) and not isinstance(value, bool | Enum)


def _is_figure(value: Any) -> bool:
    return isinstance(value, float | np.floating) or (isinstance(value, np.ndarray) and value.dtype.kind == "f")


def _measuring(original: Callable[..., Any], first: int, second: int) -> Callable[..., Any]:
    inside: list[bool] = []

    def measured(*arguments: Any, **options: Any) -> Any:
        _CALLS[0] += 1
        if not _ACTIVE or inside or len(arguments) <= np.maximum(first, second):
            return original(*arguments, **options)
        given = list(arguments)
        reference, candidate = np.asarray(given[first]), np.asarray(given[second])
        if np.issubdtype(candidate.dtype, np.floating) and reference.shape == candidate.shape:
            given[second] = _ACTIVE[0](reference, candidate)
        inside.append(True)
        try:
            return original(*given, **options)
        finally:
            inside.pop()

    measured.measures = original  # type: ignore[attr-defined]
    return measured


def _replace(original: Any, wrapped: Any) -> None:
    for name, module in list(sys.modules.items()):
        if name.startswith("kokoro_nb"):
            for attribute, value in list(vars(module).items()):
                if value is original:
                    setattr(module, attribute, wrapped)
