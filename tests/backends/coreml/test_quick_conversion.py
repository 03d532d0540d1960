from contextlib import nullcontext

import numpy as np
import pytest
import torch
from torch import nn

from kokoro_nb.backends import BACKENDS
from kokoro_nb.backends.coreml import conversion
from kokoro_nb.backends.coreml.quick_conversion import quick_conversion
from kokoro_nb.backends.exported import export_program

block = pytest.importorskip("coremltools.converters.mil.mil.block")


class Idle(nn.Module):
    """What coremltools' passes take out."""

    def forward(self, x):
        return x.transpose(1, 2).transpose(1, 2) * 1.0


class Extended(nn.Module):
    def forward(self, x):
        return torch.cat([x, x[:, :1] * 2.0], 1)


INPUTS = {"input": torch.linspace(-1, 1, 48).reshape(1, 4, 12)}


@pytest.fixture(scope="module")
def exported():
    torch.manual_seed(0)
    layers = [part for _ in range(3) for part in (Idle(), nn.Conv1d(4, 4, 3, padding=1), nn.LeakyReLU(0.1))]
    return export_program(nn.Sequential(*layers, Extended()), INPUTS)


@pytest.fixture
def checks(monkeypatch):
    """Return a list that grows by one with every check of a whole program."""
    made, check = [], block.Block.validate

    def counted(self, force_validate=False, check_essential_scope=False):
        if force_validate and isinstance(self, block.Function):
            made.append(check_essential_scope)
        check(self, force_validate, check_essential_scope)

    monkeypatch.setattr(block.Block, "validate", counted)
    return made


@pytest.mark.parametrize("name", ["coreml", "coreml-float16"])
def test_the_file_is_the_same_to_the_byte_for_a_tenth_of_the_checks(name, exported, checks, tmp_path, monkeypatch):
    quick = BACKENDS[name].export(exported, INPUTS, tmp_path / "quick")
    few = len(checks)
    monkeypatch.setattr(conversion, "quick_conversion", nullcontext)
    plain = BACKENDS[name].export(exported, INPUTS, tmp_path / "plain")
    assert 5 <= few < (len(checks) - few) / 10
    assert True in checks[:few], "what a file needs to name its operators is still looked for"
    quick_files, plain_files = _files(quick.path), _files(plain.path)
    assert set(quick_files) == set(plain_files)
    differing = {path.name for path in plain_files if plain_files[path] != quick_files[path]}
    assert differing <= {"Manifest.json"}, "it holds identifiers made anew"


def _files(folder):
    return {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_pass_that_breaks_the_program_is_noticed(monkeypatch, exported, tmp_path):
    from coremltools.converters.mil.mil.passes.pass_registry import PASS_REGISTRY

    def forget(program):
        for operation in program.functions["main"].operations:
            if operation.op_type == "conv":
                operation.x._child_ops.clear()

    monkeypatch.setitem(PASS_REGISTRY.passes, "common::dead_code_elimination", _Pass(forget))
    made = BACKENDS["coreml"].export(exported, INPUTS, tmp_path)
    assert made.rung == "lowered"
    assert "should be consumed by op" in str(made)


class _Pass:
    def __init__(self, work):
        self.work = work

    def set_options(self, options):
        pass

    def __call__(self, program):
        self.work(program)


def test_values_that_may_not_be_replaced_are_followed():
    from coremltools.converters.mil import Builder as mb
    from coremltools.converters.mil.mil import Function, Program, types

    def program():
        with Function({"x": mb.placeholder(shape=(2, 3), dtype=types.fp32)}) as function:
            zero = np.zeros((1, 1), np.int8)
            weight = mb.constexpr_affine_dequantize(
                quantized_data=np.ones((2, 3), np.int8), zero_point=np.int8(0), scale=np.float32(0.5), axis=0
            )
            function.set_outputs(
                [mb.add(x=mb.identity(x=weight), y=function.inputs["x"]), mb.identity(x=mb.const(val=zero))]
            )
        whole = Program()
        whole.add_function("main", function)
        return [[len(one.nonreplaceable_vars_upstream) for one in op.outputs] for op in function.operations]

    plain = program()
    with quick_conversion():
        quick = program()
    assert quick == plain
    assert [1] in quick
