"""What was found out in one environment, as JSON that another one reads without any runtime: its form, and a reader.

Every file begins with a head: ``schema``, ``kokoro_nb/NAME/VERSION``; ``versions``, of Python and of each package that
is there and may decide a result; ``platform``. What follows is in `FORMS`. A figure that is not finite is written as
``"nan"``, ``"inf"`` or ``"-inf"``, and null where it was not measured. Keys that are not named here may come along.

``diagnosis`` (``kokoro-nb diagnose`` and ``inspect``)
    ``subject``: what was diagnosed, with the SHA-256 of the parameters or of the file (``model``). ``inputs``: each as
    `sketched`, for those that a model computed differ in their last bits from one PyTorch to the next.
    ``runtime``: its name, and which of the versions are its own. ``operators``: each in the order of execution, with
    its verdict and its error by itself. ``outputs``: each with its error, its limit, and `sketched` values.
    ``findings``: what is wrong, with the operator (``tap``), its mechanism and its blame. ``history``: how far the same
    inputs gave another answer after others. ``failure``: why nothing could be run; else empty. ``remedies``: what was
    tried as a cure.
``survey`` (``kokoro-nb survey``)
    ``label``: what was exported; ``backends``: each with its outcome in words and, as far as it came, the
    columns of its table: MB, seconds of each rung, and errors, of the peak, with what float32 allows.
``defects`` (``kokoro-nb defects``)
    ``defects``: each with its state on the installed versions, and its figures where it could run.
``comparison`` (``kokoro-nb compare``)
    ``settings``: name, before, after of what the two were made with, where it differs; ``count``: how many changes of
    each kind; ``changes``: what changed, the worst first.
``doctor`` (``kokoro-nb doctor``)
    `kokoro_nb.reporting.versions.doctor`; of what a backend, weights and Whisper can do, null or the reason why not.
``bench`` (``kokoro-nb bench``)
    ``suites``: its tables, each with rows whose keys have units, and program -> why it is ``skipped``. ``weights``,
    ``parameters``, ``machine``: what was measured, how and where.
``repair`` (``kokoro-nb repair``)
    ``minimal``: the patches, null where no set works; ``proven``: whether the export falls without each of them.
    ``start``, ``unpatched``, ``found``, ``left_out``: the sets that were tried, in all ``trials`` of them.
``validate-steps`` (``kokoro-nb validate-steps``)
    ``steps``: each output of each step with its errors, by itself and of the chain, of the peak.
``weights`` (``kokoro-nb weights``)
    ``weights``: their label; ``fits``: whether they were loaded; ``loading``: every key of the checkpoint by what
    became of it, as `kokoro_nb.models.weights.LoadingReport`, null where there was no file to load.
"""

import hashlib
import platform
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from kokoro_nb.cache_keys import package_versions
from kokoro_nb.errors import InputError
from kokoro_nb.storage import json_ready, read_json
from kokoro_nb.traces.statistics import describe, of_peak

PACKAGES = (
    *("torch", "numpy", "onnx", "onnxscript", "onnxruntime", "onnxruntime-gpu", "onnxruntime-qnn"),
    *("executorch", "torchao", "coremltools", "apache-tvm", "apache-tvm-ffi", "kokoro", "pocket-tts", "transformers"),
)
SAMPLE = 64  # elements of an output that a record holds, spread evenly
Form = Any  # a type, float for a figure; a list of one form; a mapping of the keys that have to be there to theirs

_OPERATOR = {"name": str, "op": str, "verdict": str, "reason": str, "error / rounding": float, "error (of peak)": float}
_SKETCH = {"dtype": str, "shape": [int], "finite": float, "peak": float, "rms": float, "sha256": str, "sample": [float]}
_DIAGNOSIS = {
    **dict.fromkeys(("verdict", "statement", "method", "failure"), str),
    "subject": {"label": str, "model": str},
    "runtime": {"name": str, "packages": [str]},
    "history": {str: float},
    "inputs": [{"name": str, **_SKETCH}],
    "operators": [{**_OPERATOR, "finite": float, "rms": float}],
    "outputs": [{"name": str, "verdict": str, "error (of peak)": float, "limit (of peak)": float, **_SKETCH}],
    "findings": [{"tap": str, "kind": str, "blame": str, "mechanism": {"name": str}}],
    "remedies": [{"remedy": str, "verdict": str}],
}
FORMS: Mapping[str, Form] = {  # the version goes up with what another one could not read
    "diagnosis/1": _DIAGNOSIS,
    "survey/1": {"label": str, "backends": [{"backend": str, "outcome": str}]},
    "defects/2": {"defects": [dict.fromkeys(("name", "defect", "version", "today", "control"), str)]},
    "comparison/1": {"settings": [[str]], "count": {str: int}, "changes": [dict]},
    "doctor/1": {"backends": {str: {"purpose": str}}, "weights": {str: object}, "whisper": {str: object}},
    "bench/1": {"suites": {str: [{"caption": str, "rows": [dict], "skipped": {str: str}}]}, "machine": dict},
    "repair/1": {"backend": str, "verdict": str, "absent": str, "minimal": object, "proven": bool, "trials": int},
    "validate-steps/1": {"steps": [{"step": str, "output": str}]},
    "weights/1": {"weights": str, "fits": bool, "loading": object},
}


def headed(name: str, **about: Any) -> dict[str, Any]:
    """Return a record with its head, ready for JSON; `name` is a key of `FORMS`.

    Raises
    ------
    InputError
        If `about` has not that form.
    """
    installed = {one: found for one, found in package_versions(PACKAGES).items() if found != "absent"}
    head = {"schema": f"kokoro_nb/{name}", "versions": {"python": platform.python_version(), **installed}}
    record = json_ready({**head, "platform": f"{platform.system()} {platform.machine()}", **about})
    return checked_record(record, name, f"What {name} gives")


def read_record(path: str | Path, name: str = "diagnosis/1") -> dict[str, Any]:
    """Read a record, its figures as floats.

    Raises
    ------
    InputError
        If it is absent, damaged, or of another schema.
    """
    return checked_record(read_json(path, "record"), name, str(path))


def checked_record(record: Any, name: str, where: str) -> dict[str, Any]:
    """Return a record of the form `name`, its figures as floats.

    Raises
    ------
    InputError
        If it is none; `where` begins the sentence.
    """
    schema = record.get("schema") if isinstance(record, dict) else None
    if schema != f"kokoro_nb/{name}":
        words = f"is no record of the schema kokoro_nb/{name} (its schema: {str(schema)[:60]})"
        raise InputError(f"{where} {words}; make it anew.")
    try:
        return dict(_fitted(record, {"versions": {str: str}, "platform": str, **FORMS[name]}, ""))
    except ValueError as error:
        raise InputError(f"{where} is a damaged record: {error}; make it anew.") from error


def _fitted(value: Any, form: Form, place: str) -> Any:
    """Return a value of its form with its figures as floats; a ValueError says where it has another."""
    if form is float and (value in (None, "nan", "inf", "-inf") or type(value) in (int, float)):
        return None if value is None else float(value)
    if isinstance(form, list) and isinstance(value, list):
        return [_fitted(one, form[0], f"{place} {number}") for number, one in enumerate(value)]
    if isinstance(form, dict) and isinstance(value, dict):
        forms = dict.fromkeys(value, form[str]) if str in form else form
        lost = next((key for key in forms if key not in value), None)
        if lost is not None:
            raise ValueError(f"it has no '{f'{place} {lost}'.strip()}'")
        return {**value, **{key: _fitted(value[key], inner, f"{place} {key}".strip()) for key, inner in forms.items()}}
    if isinstance(form, type) and form is not float and isinstance(value, form):
        return value
    what = {float: "figure", list: "list", dict: "mapping", str: "text", int: "number", bool: "truth value"}
    raise ValueError(f"'{place}' is no {what[form if isinstance(form, type) else type(form)]}")


def sketched(value: Any, **about: Any) -> dict[str, Any]:
    """Return `about` and what a record holds of an array, from which two can be compared: see `sketches_apart`."""
    array = np.ascontiguousarray(value)
    seen, flat = describe(array), array.reshape(-1)
    places = np.linspace(0, flat.size - 1, min(SAMPLE, flat.size)).round().astype(int)
    parts = flat[places].astype(np.complex128 if np.iscomplexobj(flat) else np.float64).view(np.float64)
    about |= {"dtype": seen.dtype, "shape": list(array.shape), "finite": seen.finite, "peak": seen.peak}
    return {**about, "rms": seen.rms, "sha256": hashlib.sha256(array.tobytes()).hexdigest(), "sample": parts.tolist()}


def sketches_apart(one: Mapping[str, Any], other: Mapping[str, Any]) -> float:
    """Return the largest difference of two sketches, in an element that they hold or the rms, of the first's peak.

    It is 0 of the same bits, infinite of another shape, and NaN where not the same elements are finite.
    """
    if one["sha256"] == other["sha256"]:
        return 0.0
    mine, theirs = np.array(one["sample"], np.float64), np.array(other["sample"], np.float64)
    if one["shape"] != other["shape"] or mine.shape != theirs.shape:
        return float("inf")
    finite = np.isfinite(mine)
    if one["finite"] != other["finite"] or (finite != np.isfinite(theirs)).any():
        return float("nan")
    apart = float(np.abs(mine - theirs)[finite].max(initial=abs(one["rms"] - other["rms"]) if finite.any() else 0.0))
    return of_peak(apart, one["peak"])
