import json
import tempfile

import pytest
import torch

from kokoro_nb.backends.base import Artifact, Failure
from kokoro_nb.backends.exported import export_program
from kokoro_nb.backends.inductor import compiler, compiler_version
from tests.backends.small import Of, present

X = {"x": torch.linspace(-2, 2, 64)}


MIXED = Of(lambda x: torch.exp(torch.sin(x) * 3) / x.std())  # fused elementwise work, and a reduction


@pytest.fixture(scope="module")
def backend():
    return present("aot-inductor")


@pytest.fixture(scope="module")
def made(backend, tmp_path_factory):
    """Return a package, and what lay in the temporary folder once it was made."""
    rooms = tmp_path_factory.mktemp("temporary"), tmp_path_factory.mktemp("artefacts")
    before, tempfile.tempdir = tempfile.tempdir, str(rooms[0])
    try:
        artifact = backend.export(MIXED, X, rooms[1])
    finally:
        tempfile.tempdir = before
    assert isinstance(artifact, Artifact), str(artifact)
    return artifact, list(rooms[0].iterdir())


def test_it_leaves_nothing_behind_but_the_package(made):
    artifact, left = made
    assert left == []
    assert sorted(path.name for path in artifact.path.parent.iterdir()) == ["meta.json", "model.pt2", "taps.json"]


def test_an_export_that_fails_leaves_nothing_behind(backend, tmp_path, monkeypatch):
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    from torch._inductor import config

    with config.patch({"cpp.cxx": (None, "no-such-compiler")}):
        assert compiler() == "no-such-compiler"
        assert "There is no C++ compiler 'no-such-compiler' here; install g++" in backend.available()
        failure = backend.export(MIXED, X, tmp_path / "artefacts")
    assert isinstance(failure, Failure)
    assert failure.rung == "lowered"
    assert "InvalidCxxCompiler" in failure.message
    assert list((tmp_path / "temporary").iterdir()) == []
    assert not list((tmp_path / "artefacts").glob("aot-inductor-*"))


def test_the_key_holds_what_the_machine_code_depends_on(backend, made, monkeypatch):
    options = json.loads(made[0].path.with_name("meta.json").read_text(encoding="utf-8"))["options"]
    assert options == json.loads(json.dumps(backend.options()))
    assert options["compiler"] == compiler_version(compiler())
    assert any(flag.startswith(("-march", "-mcpu", "+")) for flag in options["processor"])
    keys = {backend._about(export_program(MIXED, X))["key"]}
    monkeypatch.setattr("torch.get_num_threads", lambda: 7)
    keys.add(backend._about(export_program(MIXED, X))["key"])
    monkeypatch.setattr("kokoro_nb.backends.inductor.processor_flags", lambda name: ("-march=other",))
    keys.add(backend._about(export_program(MIXED, X))["key"])
    assert len(keys) == 3
