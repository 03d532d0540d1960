"""What other tools say of the same faults: each is given the tensors that were captured, matched by name beforehand.

They are asked as they are shipped, with their own arithmetic and limits, and the operator that they put first is what
they name. None of them has to match names or to capture anything here, which is more help than they have in use.
"""

import math
from collections.abc import Iterator

import numpy as np

SLICE = 8  # elements looked at on either end
RELATIVE, ABSOLUTE = 1e-3, 1e-5  # what is commonly let pass


def head_and_tail(view):
    """Name the first tensor whose first or last elements differ."""
    for name, expected, given in _pairs(view):
        for part in (slice(None, SLICE), slice(-SLICE, None)):
            if not _close(expected.reshape(-1)[part], given.reshape(-1)[part]):
                return (name,)
    return ()


def first_difference(view):
    """Name the first tensor that differs anywhere."""
    return next(((name,) for name, expected, given in _pairs(view) if not _close(expected, given)), ())


def largest_error(view):
    """Name the tensor with the largest error, as a share of its peak; NaN counts as the largest."""
    errors = {}
    for name, expected, given in _pairs(view):
        with np.errstate(invalid="ignore"):
            error = float(np.abs(expected - given).max(initial=0.0))
        peak = float(np.abs(expected).max(initial=0.0))
        errors[name] = math.inf if math.isnan(error) else error / peak if peak else math.inf if error else 0.0
    return _largest(errors)


def numeric_gap_mse(view):
    """Name the operator with the largest gap by ExecuTorch's comparator of mean squared errors."""
    from executorch.devtools.inspector.numerical_comparator import MSEComparator

    return _largest(_gaps(MSEComparator(), view))


def numeric_gap_l1(view):
    """Name the operator with the largest gap by ExecuTorch's comparator of absolute errors."""
    from executorch.devtools.inspector.numerical_comparator import L1Comparator

    return _largest(_gaps(L1Comparator(), view))


def numeric_gap_snr(view):
    """Name the operator with the lowest signal-to-noise ratio by ExecuTorch's comparator."""
    from executorch.devtools.inspector.numerical_comparator import SNRComparator

    # two tensors of zeros give NaN, equal ones infinity
    return _largest({name: -gap for name, gap in _gaps(SNRComparator(), view).items()}, nothing=-math.inf)


def polygraphy_validate(view):
    """Name the first output that ``polygraphy run --validate`` rejects: one that holds NaN or infinity."""
    from polygraphy.comparator import Comparator

    for name, _, given in _pairs(view):
        if np.isfinite(given).all():
            continue  # it lets these pass, after statistics of each that take seconds for a thousand tensors
        with _silent():
            if not Comparator.validate(_results(faulty={name: given}), check_inf=True, check_nan=True):
                return (name,)
    return ()


def polygraphy_compare(view):
    """Name the first output that ``polygraphy run`` finds different, with its own limits (1e-5, either or both)."""
    from polygraphy.comparator import Comparator, SimpleCompareFunc

    for name, expected, given in _pairs(view):
        if np.array_equal(expected, given):
            continue
        with _silent():
            results = _results(healthy={name: expected}, faulty={name: given})
            if not bool(Comparator.compare_accuracy(results, compare_func=SimpleCompareFunc())):
                return (name,)
    return ()


def onnx_verification(view):
    """Name the first value of which ``torch.onnx.verification`` warns: above 0.01 absolute or 0.1 relative error."""
    import torch
    from torch.onnx.verification import VerificationInfo

    for name, expected, given in _pairs(view):
        info = VerificationInfo.from_tensors(name, torch.from_numpy(expected), torch.from_numpy(given))
        if info.max_abs_diff > 0.01 or info.max_rel_diff > 0.1:
            return (name,)
    return ()


PEERS = {
    "head and tail": head_and_tail,
    "first difference": first_difference,
    "largest output error": largest_error,
    "numeric gap, MSE": numeric_gap_mse,
    "numeric gap, L1": numeric_gap_l1,
    "numeric gap, SNR": numeric_gap_snr,
    "polygraphy --validate": polygraphy_validate,
    "polygraphy run": polygraphy_compare,
    "torch.onnx.verification": onnx_verification,
}


def _pairs(view) -> Iterator[tuple[str, np.ndarray, np.ndarray]]:
    """Yield every tensor of the healthy program that was captured in the other too, in the order of execution."""
    given = view.candidate.values
    for name, expected in view.reference.values.items():
        if name in given and expected.dtype.kind == "f":
            yield name, np.ascontiguousarray(expected), np.ascontiguousarray(given[name])


def _close(expected, given):
    with np.errstate(invalid="ignore"):
        return np.allclose(given, expected, rtol=RELATIVE, atol=ABSOLUTE)


def _gaps(comparator, view):
    import torch

    return {
        name: comparator.element_compare(torch.from_numpy(expected), torch.from_numpy(given))
        for name, expected, given in _pairs(view)
    }


def _largest(gaps, nothing=0.0):
    """Return the name of the largest gap, as ``DataFrame.nlargest`` does: the first of equals, NaN passed over."""
    import pandas as pd

    table = pd.DataFrame({"name": list(gaps), "gap": list(gaps.values())})
    top = table[table.gap > nothing].nlargest(1, "gap")
    return tuple(top.name)


def _results(**outputs):
    from polygraphy.comparator import IterationResult, RunResults

    return RunResults([(runner, [IterationResult(arrays, runner_name=runner)]) for runner, arrays in outputs.items()])


def _silent():
    from polygraphy.logger import G_LOGGER

    return G_LOGGER.verbosity(G_LOGGER.CRITICAL + 1)
