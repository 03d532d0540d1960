import copy
import json

import pytest

from kokoro_nb.benchmarks import machine, stored_results
from kokoro_nb.benchmarks.machine import Machine, this_machine
from kokoro_nb.benchmarks.suite import BenchmarkTable
from kokoro_nb.errors import InputError


def row(program, median, low, high):
    return {"program": program, "x eager": median, "from": low, "to": high}


@pytest.fixture
def result():
    rows = [row("eager", 1.0, 1.0, 1.0), row("onnxruntime", 0.5, 0.45, 0.55), row("tvm", 3.0, "nan", "nan")]
    tables = [BenchmarkTable("Decoder", rows), BenchmarkTable("Work", [{"family": "other", "operators": 3}])]
    return stored_results.record("narrow (random)", {"rounds": 5}, {"torch": "2.13.0"}, "abc", {"decoders": tables})


def test_what_is_saved_is_loaded(result, tmp_path):
    path = stored_results.save(result, tmp_path)
    assert path.parent == tmp_path / this_machine().fingerprint
    assert stored_results.load(path) == result
    assert stored_results.save(result, tmp_path) != path  # a second one within the second replaces nothing


def test_what_is_cut_off_or_something_else_is_refused(result, tmp_path):
    path = stored_results.save(result, tmp_path)
    text = path.read_text()
    for name, content, sentence in (
        ("cut", text[: len(text) // 2], "cannot be read as JSON"),
        ("list", "[]", "holds no benchmark"),
        ("foreign", '{"kind": "other"}', "holds no benchmark"),
        ("old", json.dumps({**result, "schema": 1}), "by another version of 'kokoro-nb bench'; measure again"),
        ("less", json.dumps({key: result[key] for key in result if key != "machine"}), "by another version"),
        ("damaged", json.dumps({**result, "suites": {"decoders": [{}]}}), "is damaged"),
    ):
        (tmp_path / name).write_text(content)
        with pytest.raises(InputError, match=sentence):
            stored_results.load(tmp_path / name)
    with pytest.raises(InputError, match="no benchmark at"):
        stored_results.load(tmp_path / "absent")


def test_a_ratio_of_ratios_and_what_differs(result):
    then = copy.deepcopy(result)
    then["suites"]["decoders"][0]["rows"][1] = row("onnxruntime", 0.25, 0.24, 0.26)
    then["suites"]["decoders"][0]["rows"].append(row("gone", 1.0, 1.0, 1.0))
    then["versions"]["torch"], then["machine"]["cores"] = "2.12.0", -1
    found = {each["program"]: each for each in stored_results.against(then, result)}
    assert list(found) == ["eager", "onnxruntime", "tvm"]
    assert found["onnxruntime"]["candidate / reference"] == 2
    assert [each["change"] for each in found.values()] == ["same", "slower", "unknown"]
    assert stored_results.against(result, then)[1]["change"] == "faster"
    assert stored_results.differences(then, result) == [
        f"machine, cores: -1 in the reference, {result['machine']['cores']} in the candidate",
        "versions, torch: 2.12.0 in the reference, 2.13.0 in the candidate",
    ]
    assert stored_results.differences(result, result) == []


def test_a_fingerprint_is_of_what_decides_speed_alone():
    one = Machine("Acme X 9 (R)", "x86_64", "Linux", 4, ("avx2",), {"L2": "512K"}, 16000)
    assert one.fingerprint.startswith("acme-x-9-r-4-")
    other = {**vars(one), "memory": 15990}
    assert Machine(**other).fingerprint == one.fingerprint
    assert Machine(**{**other, "flags": ()}).fingerprint != one.fingerprint


def test_this_machine_says_what_it_is(monkeypatch, tmp_path):
    found = this_machine()
    assert found.cores >= 1
    assert found.processor
    for name in ("_CPUINFO", "_MEMINFO", "_CACHES"):  # a system that says nothing
        monkeypatch.setattr(machine, name, tmp_path / name)
    bare = this_machine()
    assert bare.processor
    assert bare.fingerprint != found.fingerprint
