import tempfile

import pytest
import torch

from kokoro_nb.backends.inductor import compiler, compiler_version
from tests.backends.small import Of, present

X = {"x": torch.linspace(-2, 2, 64)}


MIXED = Of(lambda x: torch.exp(torch.sin(x) * 3) / x.std())  # fused elementwise work, and a reduction


@pytest.fixture(scope="module")
def backend():
    return present("aot-inductor")


@pytest.fixture
def temporary(tmp_path, monkeypatch):
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    return tmp_path / "temporary"


@pytest.mark.slow  # half a minute to compile
def test_it_leaves_nothing_behind_but_the_package(backend, temporary, tmp_path):
    artifact = backend.export(MIXED, X, tmp_path / "artefacts")
    assert list(temporary.iterdir()) == []
    assert sorted(path.name for path in artifact.folder.iterdir()) == ["meta.json", "model.pt2", "taps.json"]


def test_an_export_that_fails_leaves_nothing_behind(backend, temporary, tmp_path):
    from torch._inductor import config

    with config.patch({"cpp.cxx": (None, "no-such-compiler")}):
        assert compiler() == "no-such-compiler"
        assert "There is no C++ compiler 'no-such-compiler' here; install g++" in backend.available()
        failure = backend.export(MIXED, X, tmp_path / "artefacts")
    assert failure.rung == "lowered"
    assert "no-such-compiler" in failure.message
    assert list(temporary.iterdir()) == []
    assert not list((tmp_path / "artefacts").glob("aot-inductor-*"))


def test_the_key_holds_what_the_machine_code_depends_on(backend, monkeypatch):
    options = backend.options()
    assert options["compiler"] == compiler_version(compiler())
    assert any(flag.startswith(("-march", "-mcpu", "+")) for flag in options["processor"])
    monkeypatch.setattr("torch.get_num_threads", lambda: 7)
    threads = backend.options()
    monkeypatch.setattr("kokoro_nb.backends.inductor.processor_flags", lambda name: ("-march=other",))
    assert len({str(one) for one in (options, threads, backend.options())}) == 3
