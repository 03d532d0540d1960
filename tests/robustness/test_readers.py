"""Every reader of files, given hundreds of damaged ones: it returns, or says in one sentence why not."""

import json
import shutil
import warnings
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import nbformat
import numpy as np
import pytest
import torch
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output
from safetensors.torch import save_file

from kokoro_nb.backends.artefacts import TapMap, read_taps, write_taps
from kokoro_nb.delivery.contract import read_contract
from kokoro_nb.delivery.pipeline import read_table
from kokoro_nb.errors import InputError
from kokoro_nb.findings import Finding, read_findings, write_findings
from kokoro_nb.listening.waveform import read_wav, write_wav
from kokoro_nb.models.weights import read_config, read_state
from kokoro_nb.reporting.fragments import board
from kokoro_nb.reporting.html import read_body
from kokoro_nb.reporting.runs import RunRecord, read_run, read_run_or_damage, write_run
from kokoro_nb.reporting.selection import read_spec
from kokoro_nb.traces.trace import Operator
from tests.delivery.test_contract import delivery
from tests.robustness.test_hostile import table, voice, whole_voice

ROUNDS = 120
# What a value of JSON is replaced with, as it is written.
ODD = (
    *("null", "true", "-1", "0", "3.5", "1e308", "NaN", "-Infinity", "1" + "0" * 400, "9" * 5000, '""', '"\\u0000"'),
    *('"../../x"', '"nan"', '"\\ud800"', "[]", "{}", "[[1, 2], [3]]", '{"a": {"b": []}}', "[" * 500 + "]" * 500),
    *('"' + "x" * 10_000 + '"', '"<script>"', '"a\\nb"'),
)


def make_run(folder):
    folder.mkdir()
    write_run(
        folder, RunRecord("in", "failed", "key", {"a": [1]}, "2026-11-21T09:44:07+00:00", 1.5, "E: x", "R.", {"a": "0"})
    )


def use_run(folder):
    assert read_run_or_damage(folder) is not None, "the report never stops at one"
    return read_run(folder)


def make_findings(path):
    row = Finding("size", "pass", "It is small.", "w", "eager", 1.0, 2.0, "s", "a:b", "why", ("a.png",), "<=")
    write_findings(path, [row, row], notebook="in", weights="w")


def make_notebook(path):
    outputs = [
        new_output("stream", name="stdout", text="a\n"),
        new_output("display_data", {"image/png": "QUJD", "text/plain": "a"}, metadata={"image/png": {"width": 3}}),
        new_output("error", ename="E", evalue="v", traceback=["t"]),
    ]
    code = new_code_cell("1", outputs=outputs, execution_count=1, metadata={"tags": ["a"]})
    nbformat.write(new_notebook(cells=[new_markdown_cell("# T\n\n## A\n\na | b"), code]), path)


def make_taps(folder):
    folder.mkdir()
    operators = (Operator("a", "add", "m", ("x",), (1, 2), "float32"), Operator("b", "mul", "m", ("a",), (1,), "int64"))
    write_taps(folder / "taps.json", TapMap(operators, {"a": "t1"}))


def make_sweep(path):
    path.write_text(
        'notebook = ["01"]\nretries = 1\ntimeout = 2.5\n[grid]\na = [1, 2]\nb = ["x"]\n[requires]\na.1 = "c"\n'
    )


def make_config(path):
    source = Path(read_state.__code__.co_filename).with_name("kokoro_82m.json")
    config = json.loads(source.read_text())
    path.write_text(json.dumps({**config, "vocab": dict(list(config["vocab"].items())[:3])}))


@dataclass(frozen=True)
class Reader:
    """What writes a sound file or folder, which file of it is damaged, and what reads it and looks at all of it."""

    make: object
    read: object
    name: str = "in"
    file: str = ""


READERS = {
    "run record": Reader(make_run, use_run, file="run.json"),
    "findings": Reader(make_findings, lambda path: board(read_findings(path)[0])),
    "executed notebook": Reader(make_notebook, read_body, "in.ipynb"),
    "contract": Reader(delivery, read_contract, file="contract.json"),
    "delivered voice": Reader(table, read_table, "in.npy"),
    "list of operators": Reader(make_taps, read_taps, file="taps.json"),
    "sweep": Reader(make_sweep, read_spec, "in.toml"),
    "safetensors": Reader(lambda path: save_file({"a.b": torch.zeros(2, 3)}, path), read_state, "in.safetensors"),
    "checkpoint": Reader(lambda path: torch.save({"a": {"b": torch.zeros(2, 3)}}, path), read_state, "in.pth"),
    "configuration": Reader(make_config, read_config, "config.json"),
    "voice": Reader(whole_voice, voice, "in.pt"),
    "WAV": Reader(lambda path: write_wav(path, np.zeros(50), 24_000), read_wav, "in.wav"),
}


def damaged(raw, source, rng):
    """Return `raw` with one damage, or a few: of its bytes, or where it is JSON of a value of it."""
    kind = rng.choice(["cut", "flip", "insert", "ones", "swap", *(["value"] * 6 if source else [])])
    at = int(rng.integers(0, max(1, len(raw))))
    size = int(rng.integers(1, 9))
    before, behind = raw[:at], raw[at:]
    if kind == "value":
        return _replaced(source, rng)
    if kind == "flip":
        out = bytearray(raw)
        for place in rng.integers(0, len(raw), size):
            out[place] ^= 1 << int(rng.integers(0, 8))
        return bytes(out)
    more = {"cut": b"", "insert": rng.bytes(size) + behind, "ones": b"\xff" * size + behind[size:]}
    return behind + before if kind == "swap" else before + more[kind]


def _replaced(source, rng):
    """Return JSON in which one value, at any depth, is something else, or has gone, or has company."""
    value = json.loads(json.dumps(source))
    places = list(_places(value))
    holder, key = places[int(rng.integers(0, len(places)))]
    mark = "knb-odd"
    what = rng.choice(["replace", "replace", "replace", "remove", "add"])
    if what == "remove":
        del holder[key]
    elif what == "add" and isinstance(holder, dict):
        holder[mark] = 1
    else:
        holder[key] = mark
    return json.dumps(value).replace(f'"{mark}"', str(rng.choice(ODD)), 1).encode("utf-8", "replace")


def _places(value):
    for key, item in value.items() if isinstance(value, dict) else enumerate(value):
        yield value, key
        if isinstance(item, dict | list):
            yield from _places(item)


def told(error):
    """Return an error that is not one line of bearable length with a full stop at its end."""
    text = str(error)
    return [] if text.endswith(".") and "\n" not in text and len(text) < 1500 else [text]


def fuzz(reader, folder, rounds, seed):
    """Return how many damaged files were read and how many refused; anything else is an error."""
    sound = folder / "sound" / reader.name
    sound.parent.mkdir()
    reader.make(sound)
    reader.read(sound)
    raw = (sound / reader.file).read_bytes() if reader.file else sound.read_bytes()
    source = None
    with suppress(ValueError):
        source = json.loads(raw)
    rng = np.random.default_rng(seed)
    counts, faults = {"read": 0, "refused": 0}, []
    path = folder / reader.name
    if reader.file:
        shutil.copytree(sound, path)
    for number in range(rounds):
        content = damaged(raw, source, rng)
        (path / reader.file if reader.file else path).write_bytes(content)
        try:
            reader.read(path)
            counts["read"] += 1
        except InputError as error:
            counts["refused"] += 1
            faults += told(error)
        except BaseException as error:
            (folder / "culprit").write_bytes(content)
            raise AssertionError(f"round {number}: {type(error).__name__}: {error} at {content[:300]!r}") from error
    assert faults == []
    return counts


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 6))])
@pytest.mark.parametrize("name", READERS)
def test_a_reader_returns_or_refuses(tmp_path, name, seed):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        counts = fuzz(READERS[name], tmp_path, ROUNDS * (10 if seed else 1), seed)
    assert counts["refused"] > ROUNDS / 10, "the damage is felt"


def test_json_nested_deep_is_refused(tmp_path):
    for name in ("run record", "findings", "contract", "list of operators", "configuration"):
        reader = READERS[name]
        path = tmp_path / name / reader.name
        path.parent.mkdir()
        reader.make(path)
        (path / reader.file if reader.file else path).write_text("[" * 200_000)
        with pytest.raises(InputError) as caught:
            reader.read(path)
        assert told(caught.value) == []
