"""Every operator that can be executed has a test, and the tests' harness finds what is wrong."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest
import torch

from kokoro_nb.backends.mil.operators import OPERATORS
from kokoro_nb.errors import InputError

CASES, REFUSED = {}, []
for path in sorted(Path(__file__).parent.glob("test_*.py")):
    if "\nCASES" in path.read_text(encoding="utf-8") and path != Path(__file__):
        spec = importlib.util.spec_from_file_location(f"cases_of_{path.stem}", path)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        CASES |= module.CASES
        REFUSED += getattr(module, "REFUSED", [])


def test_every_operator_has_a_test():
    assert set(CASES) == set(OPERATORS)


NUMBERED = [(kind, number) for kind, cases in CASES.items() for number in range(len(cases))]


@pytest.mark.parametrize(("kind", "number"), NUMBERED)
def test_operator(mil, kind, number):
    mil.check(kind, CASES[kind][number])


@pytest.mark.parametrize(("kind", "inputs", "constants", "sentence"), REFUSED)
def test_what_an_operator_cannot_do_is_an_error(mil, kind, inputs, constants, sentence):
    with pytest.raises((InputError, IndexError), match=sentence):
        mil.run(kind, inputs, **constants)


# Wrong in one way each; the harness must reject every one of them.
X = np.array([-1.5, -0.0, 0.5, 1.25, 2.75, 70.0, np.nan, np.inf], "float32")
WRONG = {
    "a value": ("floor", lambda site, x: torch.trunc(x)),
    "NaN hidden": ("floor", lambda site, x: torch.nan_to_num(torch.floor(x), nan=0.0, posinf=torch.inf)),
    "infinity cut off": ("floor", lambda site, x: torch.clamp(torch.floor(x), max=1e30)),
    "the shape": ("floor", lambda site, x: torch.floor(x)[None]),
    "the kind of number": ("floor", lambda site, x: torch.floor(x).long()),
    "float32 only": ("floor", lambda site, x: torch.floor(x) if x.dtype == torch.float32 else torch.trunc(x)),
    "a rounding too many": ("exp", lambda site, x: torch.exp(x).half().to(x.dtype)),
    "an epsilon": ("sqrt", lambda site, x: torch.sqrt(x + 1e-5)),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_the_harness_rejects(mil, monkeypatch, wrong):
    kind, function = WRONG[wrong]
    case = {"inputs": {"x": np.clip(X, -10, 10) if kind == "exp" else X}}
    mil.check(kind, case)
    monkeypatch.setitem(OPERATORS, kind, function)
    with pytest.raises((AssertionError, ValueError, TypeError)):
        mil.check(kind, case)
