"""The table of clients: a row for each client and dtype; what is not read is skipped, what does not speak is a fail."""

from dataclasses import replace
from importlib import import_module

import pytest

from kokoro_nb.__main__ import main
from kokoro_nb.delivery.clients import any_acceptance, client_programs
from kokoro_nb.delivery.clients.acceptance import Acceptance
from kokoro_nb.delivery.clients.imitation import imitate
from kokoro_nb.errors import InputError
from kokoro_nb.studies.clients import client_table as table_of
from kokoro_nb.studies.clients import table

ACCEPTED = Acceptance("kokoro-onnx", "float32", "seeded", 2, True, 110.0, 10**7, 1.0)


@pytest.fixture(autouse=True)
def without_clients(monkeypatch):
    monkeypatch.setenv(client_programs.ENVIRONMENT, "/nowhere/python")


def test_a_client_speaks_in_each_dtype_that_it_reads(narrow, tmp_path):
    (row,) = table_of(narrow, tmp_path, ["kokoro-onnx"], ["float32"])
    assert (row.verdict, row.durations, row.fed) == ("pass", "equal", "as the contract")
    assert row.by == "ONNX Runtime, after its contract"
    assert row.from_har > 100
    assert row.megabytes > 1
    (skipped,) = table_of(narrow, tmp_path, ["react-native-executorch"], ["int8"])
    assert skipped.as_dict()["reason"] == "it reads no weights stored as int8"
    assert skipped.verdict == "skip"


def test_what_does_not_speak_or_feeds_something_else_fails(narrow, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(table, "fed_to_probe", lambda *given, **room: {"deviations": "Row 3 was taken."})
    monkeypatch.setattr(table, "accept_any", lambda *given: [ACCEPTED])
    (row,) = table_of(narrow, tmp_path, ["kokoro-onnx"], ["float32"])
    assert (row.verdict, row.fed) == ("fail", "Row 3 was taken.")

    def ends(*given):
        raise InputError("It ends.")

    monkeypatch.setattr(table, "accept_any", ends)
    out = ["--out", str(tmp_path), "--weights", "narrow", "--clients", "kokoro-onnx", "--dtypes", "float32"]
    assert main(["study", "clients", *out]) == 1
    assert "verdict fail; reason It ends." in capsys.readouterr().out


def test_a_client_of_text_alone_is_measured_by_the_ids_that_it_makes(narrow, tmp_path, monkeypatch):
    client, reading = "sherpa-onnx==1.13", "hˈɛlO"

    def speak(client, folder, requests):  # the client reads the text in its own way, which nobody here is told
        assert {(request.symbols, request.route) for request in requests} == {(table.TEXT, "text")}
        return imitate(client, folder, [replace(request, symbols=reading) for request in requests])

    probing = import_module("kokoro_nb.studies.clients.spoken_by_clients")  # beside a function of that name
    for module in (any_acceptance, probing):
        monkeypatch.setattr(module, "speak_in", speak)
    monkeypatch.setattr(any_acceptance, "absence", lambda client: None)
    monkeypatch.setattr(any_acceptance, "installed", lambda client: "1.13.4")
    (row,) = table_of(narrow, tmp_path, [client], ["float32"])
    assert (row.by, row.verdict, row.durations) == ("sherpa-onnx 1.13.4", "pass", "equal")
    assert row.from_har > 100
    monkeypatch.setattr(any_acceptance, "_read_by", lambda *given: (0, 50, 83, 54, 57, 54, 0))
    (row,) = table_of(narrow, tmp_path, [client], ["float32"])
    assert (row.verdict, row.durations) == ("fail", "other")


def test_without_that_client_its_stand_in_is_given_phonemes(narrow, tmp_path):
    (row,) = table_of(narrow, tmp_path, ["sherpa-onnx==1.13"], ["float32"])
    assert (row.by, row.verdict) == ("ONNX Runtime, after its contract", "pass")
