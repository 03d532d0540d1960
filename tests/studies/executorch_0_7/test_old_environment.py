import sys

import pytest

from kokoro_nb.errors import InputError
from kokoro_nb.studies.executorch_0_7.old_environment import VARIABLE, absent, old_python


def test_an_interpreter_that_is_not_there_is_reported_in_one_sentence(monkeypatch, tmp_path):
    monkeypatch.setenv(VARIABLE, str(tmp_path / "python"))
    reason = absent()
    assert reason is not None
    assert VARIABLE in reason
    assert reason.endswith("`make replay` sets it up.")
    assert str(tmp_path) not in reason
    with pytest.raises(InputError, match="names no interpreter"):
        old_python()


def test_an_environment_with_another_version_is_refused(monkeypatch):
    monkeypatch.setenv(VARIABLE, sys.executable)
    with pytest.raises(InputError, match=r"has 1\.\d"):
        old_python()


def test_an_environment_that_was_never_set_up(monkeypatch, tmp_path):
    monkeypatch.delenv(VARIABLE, raising=False)
    monkeypatch.setattr("kokoro_nb.studies.executorch_0_7.old_environment._HERE", tmp_path / "python")
    assert "not set up" in str(absent())
