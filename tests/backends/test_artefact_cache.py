"""What is found again and what is made anew, by a backend that writes a text and needs no runtime; its operators."""

import ctypes
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import ClassVar

import psutil
import pytest
import torch
from torch import nn

from kokoro_nb import cache_keys
from kokoro_nb.backends import artefacts
from kokoro_nb.backends.artefacts import FileBackend, artefact_folder, give_back_memory
from kokoro_nb.backends.base import META, on_rung
from kokoro_nb.backends.exported import export_program
from kokoro_nb.errors import InputError
from kokoro_nb.storage import read_json, write_json
from tests.refusals import refused


class Doubled(nn.Module):
    weights_label = "made up"

    def forward(self, x):
        return 2 * x


@dataclass(frozen=True)
class Text(FileBackend):
    """Writes how it was asked."""

    name: str = "text"
    option: str = "plain"
    fails: bool = False
    reason: str | None = None
    waits: float = 0.0
    file: ClassVar[str] = "model.txt"
    packages: ClassVar[tuple[str, ...]] = ("numpy",)

    def available(self):
        return None

    def executes(self):
        return self.reason

    def options(self):
        return {"option": self.option}

    def write(self, exported, path, seconds):
        with on_rung("lowered", seconds):
            time.sleep(self.waits)
            if self.fails:
                raise RuntimeError("no such operator")
            path.write_text(self.option)
            (path.parent / "more").mkdir()
            (path.parent / "more" / "data").write_text("data")
        WRITTEN.append(self.option)

    def opened(self, artifact, path):
        return artifact, path


WRITTEN: list[str] = []
X = {"x": torch.ones(1, 3)}


@pytest.fixture(scope="module")
def exported():
    return export_program(Doubled(), X)


@pytest.fixture(autouse=True)
def _nothing_written():
    WRITTEN.clear()


def test_what_was_made_is_found_again_with_its_seconds(exported, tmp_path):
    first, again = (Text().export(exported, X, tmp_path) for _ in range(2))
    assert WRITTEN == ["plain"]
    assert (first.cached, again.cached) == (False, True)
    assert first.seconds == again.seconds
    assert set(first.seconds) == {"exported", "lowered"}
    assert first.path == again.path
    assert first.size == len("plain") + len("data")
    meta = read_json(first.path.with_name(META), "meta")
    assert (meta["weights"], set(meta["versions"])) == (["made up"], {"torch", "numpy"})


def test_all_that_decides_a_file_is_in_its_key(exported, tmp_path, monkeypatch):
    made = [Text().export(exported, X, tmp_path), Text(option="other").export(exported, X, tmp_path)]
    made += [Text("words").export(exported, X, tmp_path), Text().export(Doubled(), {"x": torch.ones(1, 4)}, tmp_path)]
    with monkeypatch.context() as changed:
        changed.setattr(cache_keys, "_version", lambda package: "0" if package == "numpy" else "1")
        made.append(Text().export(exported, X, tmp_path))
    with monkeypatch.context() as changed:
        changed.setattr(cache_keys, "code_digest", lambda *rooms: f"new {rooms}")
        made.append(Text().export(exported, X, tmp_path))
    keys = {read_json(one.path.with_name(META), "meta")["key"][:16] for one in made}
    assert len(keys) == len({one.path.parent for one in made}) == len(made) == len(WRITTEN)


@pytest.mark.parametrize(
    "damage",
    [
        lambda place: (place / "model.txt").write_text("plaid"),
        lambda place: (place / META).write_text("{"),
        lambda place: (place / "more" / "data").unlink(),
        lambda place: write_json(place / META, read_json(place / META, "meta") | {"options": {"option": "other"}}),
    ],
)
def test_what_is_damaged_or_another_is_made_anew(damage, exported, tmp_path):
    first = Text().export(exported, X, tmp_path)
    damage(first.path.parent)
    again = Text().export(exported, X, tmp_path)
    assert not again.cached
    assert len(WRITTEN) == 2
    assert again.path.read_text() == "plain"
    assert Text().export(exported, X, tmp_path).cached


def test_an_export_that_fails_leaves_nothing_behind(exported, tmp_path):
    failed = Text(fails=True).export(exported, X, tmp_path)
    assert (failed.backend, failed.rung) == ("text", "lowered")
    assert [path for path in tmp_path.iterdir() if path.is_dir()] == []
    assert not Text().export(exported, X, tmp_path).cached


def test_what_a_killed_process_has_left_half_written_is_removed(exported, tmp_path):
    folder = Text().export(exported, X, tmp_path).folder
    left = folder.with_name(f".{folder.name}.k1ll3d_x") / folder.name
    left.mkdir(parents=True)
    (left / "model.txt").write_text("pla")
    assert Text().export(exported, X, tmp_path).cached
    assert [path.name for path in tmp_path.iterdir() if path.is_dir()] == [folder.name]


def test_what_is_asked_for_twice_at_once_is_made_once(exported, tmp_path):
    with ThreadPoolExecutor(2) as pool:
        made = list(pool.map(lambda _: Text(waits=0.3).export(exported, X, tmp_path), range(2)))
    assert sorted(one.cached for one in made) == [False, True]
    assert len(WRITTEN) == 1


def test_only_what_this_backend_made_and_runs_is_loaded(exported, tmp_path):
    made = Text().export(exported, X, tmp_path)
    assert Text().load(made) == (made, made.path)
    refused("not on this machine", Text(reason="not on this machine").load, made)
    refused("text", Text("words").load, made)
    made.path.unlink()
    refused("no longer there", Text().load, made)


def test_the_folder_is_the_given_one_or_the_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("KOKORO_NB_CACHE", str(tmp_path / "cache"))
    assert artefact_folder(None) == tmp_path / "cache" / "artefacts"
    assert artefact_folder(str(tmp_path / "new")) == tmp_path / "new"
    assert artefact_folder(tmp_path) == tmp_path
    (tmp_path / "file").write_text("")
    refused("is a file; give a folder", artefact_folder, tmp_path / "file")


def test_a_folder_that_cannot_be_written_is_one_sentence(exported, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match=r"Cannot write .*; choose a folder that can be written"):
        Text().export(exported, X, tmp_path / "file" / "below")


def test_memory_is_given_back_after_a_large_export_was_made(exported, tmp_path, monkeypatch):
    given = []
    monkeypatch.setattr(artefacts, "give_back_memory", lambda: given.append(None))
    monkeypatch.setattr(artefacts, "LARGE", Text().export(exported, X, tmp_path / "small").size - 1)
    assert given == []
    for _ in range(2):
        Text().export(exported, X, tmp_path / "large")
    assert len(given) == 1, "the second comes from the cache"


def test_freed_memory_goes_back_to_the_system():
    if not hasattr(ctypes.CDLL(None), "malloc_trim"):
        pytest.skip("this C library gives it back by itself, or not at all")
    held = [bytearray(100_000) for _ in range(4000)]  # below what is given back at once
    last, before = bytearray(100_000), psutil.Process().memory_info().rss
    held.clear()
    give_back_memory()
    assert before - psutil.Process().memory_info().rss > 0.9 * 4000 * 100_000
    assert len(last) == 100_000, "what lies above the freed memory, and kept it"
