"""The study of notebook 20, on clients that are not there: their contracts are imitated, and the table says so."""

import numpy as np
import pytest

from kokoro_nb.delivery.clients import client_programs
from kokoro_nb.studies.clients import contract_faults, probed, spoken_by_clients

TEXT = "Hi."


@pytest.fixture(scope="module", autouse=True)
def without_clients():
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(client_programs.ENVIRONMENT, "/nowhere/python")
        patch.delenv(client_programs.NODE, raising=False)
        yield


@pytest.fixture(scope="module")
def spoken(narrow, tmp_path_factory):
    folder = tmp_path_factory.mktemp("deliveries")
    return spoken_by_clients(narrow, TEXT, folder), folder


def test_every_client_is_imitated_and_says_what_pytorch_says(spoken):
    speech, _ = spoken
    assert set(speech.absent) == {"kokoro-onnx", "sherpa-onnx", "kokoro.js"}
    assert all(row["spoken by"] == "ONNX Runtime, after its contract" for row in speech.rows)
    assert speech.durations_equal
    assert speech.worst > 100
    assert len({len(audio) for audio in speech.versions.values()}) == 1
    assert np.array_equal(speech.versions["kokoro-onnx"], speech.versions["sherpa-onnx"])


def test_one_wrong_client_makes_the_whole_wrong(spoken):
    speech, _ = spoken
    rows = [*speech.rows[1:], {**speech.rows[0], "durations": "other", "dB from the same har": float("nan")}]
    wrong = type(speech)(speech.versions, rows, speech.absent)
    assert not wrong.durations_equal
    assert np.isnan(wrong.worst)


def test_what_float16_explains_is_accepted_where_float16_is_handed_on_alone(spoken):
    speech, _ = spoken
    after = {**speech.rows[0], "durations": "equal after float16"}
    for between, durations, equal, explained in (
        ("float32", "equal after float16", False, False),
        ("float16", "equal after float16", True, True),
        ("float16", "other", True, False),
    ):
        row = {**after, "between stages": between, "durations": durations}
        one = type(speech)(speech.versions, [*speech.rows[1:], row], speech.absent)
        assert (one.durations_equal, one.durations_explained) == (equal, explained)


def test_versions_of_another_length_stand_by_themselves(spoken):
    speech, _ = spoken
    versions = {"PyTorch": np.zeros(8), "short": np.zeros(6), "also": np.zeros(8)}
    each = type(speech)(versions, speech.rows, {}).of_one_length
    assert [list(group) for group in each] == [["PyTorch", "also"], ["short"]]


def test_each_fault_is_heard_and_caught(spoken, narrow):
    _, folder = spoken
    speed, dtype, row = contract_faults(narrow, TEXT, folder)
    first, second = (int(part.split()[0]) for part in speed.heard.split(", "))
    assert first == second
    assert "integer speed" in [one.split(": ")[1] for one in speed.caught]
    assert "The bytes are read as float32" in dtype.caught[0]
    assert "the contract says" in row.caught[0]


def test_what_is_fed_to_a_probe_is_what_the_contract_says(narrow, tmp_path):
    rows = probed("hˈ.", narrow.model.vocab, tmp_path)
    assert [(row["client"], row["row"]) for row in rows] == [("kokoro-onnx", 2), ("sherpa-onnx", 3), ("kokoro.js", 3)]
    assert all(row["deviations"] == "none" and row["ids"] == 3 for row in rows)
