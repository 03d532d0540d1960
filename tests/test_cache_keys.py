"""What a cached result depends on: a change of any of it gives another key."""

import os

import pytest

from kokoro_nb import cache_keys
from kokoro_nb.__main__ import main
from kokoro_nb.cache_keys import cache_key, code_digest, files_digest, untested_versions
from kokoro_nb.commands import give


@pytest.fixture
def package(tmp_path, monkeypatch):
    for room in ("backends", "models"):
        (tmp_path / room).mkdir()
        (tmp_path / room / "a.py").write_text("x = 1")
    monkeypatch.setattr(cache_keys, "PACKAGE", tmp_path)
    code_digest.cache_clear()
    yield tmp_path
    code_digest.cache_clear()


def changed(path, text):
    path.write_text(text)
    code_digest.cache_clear()


def test_the_code_of_its_rooms_counts_and_that_of_others_does_not(package):
    of_one, of_all = cache_key({"a": 1}, ["backends"]), cache_key({"a": 1})
    changed(package / "models" / "a.py", "x = 2")
    assert cache_key({"a": 1}, ["backends"]) == of_one
    assert cache_key({"a": 1}) != of_all
    changed(package / "backends" / "b.py", "y = 1")
    assert cache_key({"a": 1}, ["backends"]) != of_one


def test_what_is_decided_and_the_versions_count_and_its_order_does_not(monkeypatch):
    assert cache_key({"a": 1, "b": 2}) == cache_key({"b": 2, "a": 1}) != cache_key({"a": 2, "b": 1})
    keys = {cache_key({"a": 1}, packages=["numpy"]), cache_key({"a": 2}, packages=["numpy"]), cache_key({"a": 1})}
    monkeypatch.setattr(cache_keys, "_version", lambda package: "0.0.1")
    assert len(keys | {cache_key({"a": 1}, packages=["numpy"])}) == 4


def test_files_count_by_content(tmp_path):
    file = tmp_path / "w" / "a.bin"
    file.parent.mkdir()
    file.write_bytes(b"one")
    of_file, of_folder = files_digest(file), files_digest(file.parent)
    os.utime(file, ns=(1, 1))
    assert (files_digest(file), files_digest(file.parent)) == (of_file, of_folder)
    file.write_bytes(b"two")
    assert files_digest(file) != of_file
    assert files_digest(file.parent) != of_folder


def test_a_version_outside_of_those_that_were_tested_is_a_note_and_two_runtimes_are_bad_input(monkeypatch, capsys):
    assert untested_versions() == []
    found = {"torch": "99.1.0", "coremltools": "8.3.9", "onnxruntime": "1.22.1"}
    monkeypatch.setattr(cache_keys, "_version", lambda package: found.get(package, "absent"))
    give("passed", None, "x/1")
    said = capsys.readouterr()
    assert said.out == "passed\n"
    assert said.err.startswith("note: torch 99.1.0 is none of the versions that this was tested with, 2.8.0 to 2.")
    assert said.err.count("\n") == 1
    found["onnxruntime-gpu"] = "1.20.0"
    assert main(["diagnose", "net.py:example", "--backend", "onnxruntime"]) == 2
    assert "onnxruntime 1.22.1 and onnxruntime-gpu 1.20.0 are both installed" in capsys.readouterr().err
