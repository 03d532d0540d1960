"""A module whose draws become inputs: the same numbers in PyTorch and on a runtime."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from kokoro_nb.backends import backend
from kokoro_nb.backends.exported import export_program
from kokoro_nb.errors import InputError
from kokoro_nb.inspection import diagnose
from kokoro_nb.locate.remedies import noise_as_input, with_noise_as_input
from tests.backends.small import Of

X = {"x": torch.ones(1, 4)}
NOISY = Of(lambda x: x * torch.rand_like(x) + torch.randn(1, 4))


def test_every_draw_is_an_input_in_its_order():
    module, inputs = noise_as_input(NOISY, X)
    assert list(inputs) == ["x", "noise_0", "noise_1"]
    given = {"x": X["x"], "noise_0": torch.full((1, 4), 2.0), "noise_1": torch.arange(4.0)[None]}
    np.testing.assert_array_equal(module(**given), [[2, 3, 4, 5]])


def test_the_draw_of_the_caller_is_not_touched():
    torch.manual_seed(3)
    expected = torch.randn(2)
    torch.manual_seed(3)
    noise_as_input(NOISY, X)
    assert torch.equal(torch.randn(2), expected)


def test_a_module_that_draws_nothing_is_refused():
    with pytest.raises(InputError, match="no function that draws"):
        noise_as_input(nn.Linear(4, 4), {"input": X["x"]})


def test_what_a_runtime_cannot_draw_is_cured_and_measured(tmp_path):
    found = diagnose(NOISY, X, "tvm-unfused", folder=tmp_path, remedies=True)
    (remedy,) = found.remedies
    assert (found.culprits[0].mechanism.name, remedy.name) == ("baked-in random numbers", "noise as an input")
    assert remedy.verdict == "pass"
    assert remedy.error_after < 1e-6


def test_noise_of_another_function_leaves_the_diagnosis_and_a_cure_that_is_unknown(tmp_path):
    noisy = export_program(Of(lambda x: x + torch.randn_like(x).mul(0) + torch.randint(0, 9, (1, 4))), X)
    remedy = with_noise_as_input(backend("tvm-unfused"), replace(noisy, module=nn.Identity()), {"input": X["x"]}, None)
    assert remedy.verdict == "unknown"
    assert "no function that draws" in remedy.reason
