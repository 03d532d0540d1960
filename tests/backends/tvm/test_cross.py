"""Artefacts for other machines: that they are for these machines, by the bytes in them."""

import tarfile

import pytest
import torch
from torch import nn

from kokoro_nb.backends.base import Artifact, Failure
from kokoro_nb.backends.exported import export_program
from kokoro_nb.backends.tvm.cross import TvmCross
from kokoro_nb.errors import InputError

MACHINES = ("aarch64-linux", "metal", "opencl")
ELF_AARCH64 = (b"\x7fELF", 183)  # e_machine of the ELF specification: EM_AARCH64
MACHO_ARM64 = (b"\xcf\xfa\xed\xfe", 0x0100000C)  # 64-bit magic, CPU_TYPE_ARM64
KERNELS = {"metal": ("kernels.metal", "kernel void"), "opencl": ("kernels.cl", "__kernel void")}


def _machine(content):
    """Return the magic number of an object file and the machine that it is for."""
    at, size = (18, 2) if content[:4] == ELF_AARCH64[0] else (4, 4)
    return content[:4], int.from_bytes(content[at : at + size], "little")


def _is_for(machine, made):
    assert isinstance(made, Artifact), str(made)
    with tarfile.open(made.path) as archive:
        members = {member.name: archive.extractfile(member).read() for member in archive.getmembers()}
    expected = ELF_AARCH64 if machine in ("aarch64-linux", "opencl") else MACHO_ARM64
    assert {_machine(content) for content in members.values()} == {expected}
    files = {p.name for p in made.path.parent.iterdir()}
    if machine in KERNELS:
        name, words = KERNELS[machine]
        assert files == {"meta.json", "taps.json", "model.tar", name}
        kernels = made.path.with_name(name).read_text()
        assert kernels.count(words) > 0
        assert any(words.encode() in content for content in members.values())  # the archive carries them, too
    else:
        assert files == {"meta.json", "taps.json", "model.tar"}


@pytest.fixture(scope="module")
def exported():
    module = nn.Sequential(nn.Conv1d(4, 8, 3), nn.LeakyReLU(0.1), nn.InstanceNorm1d(8), nn.ConvTranspose1d(8, 2, 4))
    return export_program(module, {"input": torch.linspace(-1, 1, 24).reshape(1, 4, 6)})


@pytest.mark.parametrize("machine", MACHINES)
def test_the_artefact_is_for_that_machine_and_not_run_here(machine, exported, tmp_path):
    backend = TvmCross(f"tvm-{machine}", machine=machine, matmul=machine != "metal")
    assert backend.available() is None
    assert backend.executes().startswith(f"tvm-{machine} makes code for ")
    made = backend.export(exported, {"input": torch.zeros(1, 4, 6)}, tmp_path)
    _is_for(machine, made)
    with pytest.raises(AssertionError):
        _is_for("arm64-macos" if machine in ("aarch64-linux", "opencl") else "aarch64-linux", made)
    with pytest.raises(InputError, match=f"tvm-{machine} makes code for .*It cannot be loaded here"):
        backend.load(made)


def test_a_compiler_that_ends_its_process_is_a_failure(exported, tmp_path):
    made = TvmCross("tvm-metal", machine="metal").export(exported, {"input": torch.zeros(1, 4, 6)}, tmp_path)
    assert isinstance(made, Failure)
    assert made.rung == "lowered"
    assert "TVM ended with SIGSEGV" in str(made)
    assert "tvm-metal-general" in str(made)
