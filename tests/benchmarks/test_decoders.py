"""The narrow decoder and two stages measured on ONNX Runtime: short, and what is told of it is true."""

import math

import pytest

from kokoro_nb.benchmarks import decoders, speaking
from kokoro_nb.benchmarks.profiles import Profile, gathered
from kokoro_nb.benchmarks.suite import PARTS, Asked, profiles, run, tables
from kokoro_nb.errors import InputError

LENGTH = 0.2


@pytest.fixture(scope="module")
def measured(narrow, tmp_path_factory):
    folder = tmp_path_factory.mktemp("artefacts")
    names = ["onnxruntime", "tvm-metal", "tvm"]
    slow = {"tvm": 1e6}
    return decoders.measure(narrow, LENGTH, names, 3, with_memory=False, slow=slow, folder=folder)


def test_every_program_is_timed_beside_eager(measured):
    rows = {row.program: row for row in measured.rows}
    assert list(rows) == ["eager", "eager, 1 thread", "eager, patched", "onnxruntime", "eager, again"]
    assert rows["eager"].ratio.median == 1
    assert all(row.seconds.rounds == 3 and row.seconds.median > 0 for row in rows.values())
    assert rows["onnxruntime"].real_time == rows["onnxruntime"].seconds.median / LENGTH
    assert rows["onnxruntime"].size > 1_000_000


def test_what_was_timed_computes_what_eager_computes(measured):
    assert all(row.error < 1e-3 for row in measured.rows)
    assert [row.error for row in measured.rows if row.program in ("eager", "eager, again")] == [0, 0]


def test_what_was_not_timed_says_why(measured):
    assert "metal" in measured.skipped["tvm-metal"].lower()
    assert measured.skipped["tvm"].startswith("One call would take some 200000 s")


def test_the_floor_is_below_what_was_measured(measured):
    told = measured.as_dict()
    assert 0 < told["floor_seconds"]["least"] <= min(row.seconds.median for row in measured.rows)
    assert told["floor_seconds"]["least"] < told["floor_seconds"]["separate"]
    for row in measured.rows:
        assert row.floor == pytest.approx(row.seconds.median / told["floor_seconds"]["least"])


def test_families_add_up_to_what_the_runtime_tells(measured):
    known, untold = profiles(measured)
    assert list(known) == ["eager", "eager, patched", "onnxruntime"]
    assert untold == {}
    for each in known.values():
        assert sum(each.seconds.values()) == pytest.approx(each.total)
        assert {kind: sum(names.values()) for kind, names in each.names.items()} == pytest.approx(dict(each.seconds))
        assert 0 < each.total <= 1.1 * each.wall
        assert each.seconds["convolution"] > 0
        assert (each.seconds.get("STFT", 0) > 0) == (each is not known["onnxruntime"])  # it packs the kernel away
        assert each.seconds.get("other", 0) < 0.1 * each.total


def test_a_sentence_that_is_too_short_is_said_again(narrow):
    inputs = decoders.decoder_inputs(narrow, 2000)
    assert {name: tuple(each.shape[1:]) for name, each in inputs.items() if name != "s"} == {
        "asr": (narrow.model.bert_encoder.out_features, 2000),
        "f0": (4000,),
        "n": (4000,),
        "har": (22, 240_001),
    }
    f0 = inputs["f0"][0]
    once = next(size for size in range(2, 4000, 2) if (f0[size : 2 * size] == f0[:size]).all())
    assert f0[:once].unique().numel() > 20  # it is a sentence that is repeated, not a number
    assert once < 2000


def test_events_are_gathered_for_each_call():
    events = [
        ("Conv", (11, 1, 20), 1.0),
        ("Conv", (4, 3, 5), 2.0),
        ("Sin", (), 1.0),
        ("native_call_dropout.out", (), 4.0),
    ] * 2
    found = gathered("told", events, 2, 20.0)
    assert dict(found.seconds) == {"convolution": 2.0, "STFT": 1.0, "elementwise": 1.0, "other": 4.0}
    assert (found.total, found.wall) == (8.0, 10.0)
    assert isinstance(found, Profile)


@pytest.mark.parametrize("length", [0.0, -1.0, math.inf, math.nan])
def test_no_length_is_one_sentence(length):
    with pytest.raises(InputError, match="cannot be timed"):
        run(Asked(weights="narrow", lengths=[length]))


def test_an_unknown_part_is_one_sentence():
    with pytest.raises(InputError, match="'speed' cannot be measured; ask for exports"):
        run(Asked(["speed"], weights="narrow"))


@pytest.mark.slow
def test_the_whole_of_it(tmp_path, monkeypatch):
    monkeypatch.setenv("KOKORO_NB_CACHE", str(tmp_path))
    asked = Asked(PARTS[:-1], "narrow", [1.0], ["onnxruntime"], rounds=2, tokens=32)
    label, sections = run(asked)
    assert "narrow" in label
    (spoken,) = sections["speaking"]
    assert [row["program"] for row in spoken["rows"]] == ["eager", "onnxruntime"]
    assert all(row["same_length"] and row["length"] <= 1 for row in spoken["rows"])
    for row in (*spoken["rows"], *sections["decoders"][0]["rows"][:1]):
        assert (
            0 < row["memory"]["imported"] <= row["memory"]["loaded"] <= row["memory"]["run"] < row["memory"]["process"]
        )
    captions = [caption for caption, rows in tables(sections) if rows]
    assert len(captions) == 6
    assert sections["looking"][0]["time ratio"] > 0


def test_no_backend_says_nothing(narrow):
    found = speaking.measure(narrow, 0.5, ["tvm-metal"], 1)
    assert found.rows == ()
    assert list(found.skipped) == ["tvm-metal"]
