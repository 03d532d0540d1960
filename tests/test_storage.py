import json

import numpy as np
import pytest

from kokoro_nb.errors import InputError
from kokoro_nb.storage import atomic, read_json, require_own, write_json, write_text
from tests.refusals import refused


def test_what_is_interrupted_leaves_the_old_file_and_nothing_else(tmp_path):
    path = write_text(tmp_path / "a.txt", "old")

    def fail():
        with atomic(path) as draft:
            draft.write_text("half")
            raise RuntimeError("killed")

    with pytest.raises(RuntimeError, match="killed"):
        fail()
    assert path.read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["a.txt"]


def test_what_is_replaced_whole_is_ours_or_empty(tmp_path):
    (tmp_path / "ours").mkdir()
    for _ in range(2):
        require_own(tmp_path / "ours", "run.json", "a run", "--out")
        (tmp_path / "ours" / "run.json").touch()
    (tmp_path / "thesis.txt").touch()
    for strange in (tmp_path, tmp_path / "thesis.txt"):
        with pytest.raises(InputError, match="something else than a run and would be replaced; choose another --out"):
            require_own(strange, "run.json", "a run", "--out")
    refused("choose a folder that can be written", write_text, tmp_path / "thesis.txt" / "a.txt", "text")


def test_json_keeps_what_is_not_finite(tmp_path):
    path = write_json(tmp_path / "a.json", {"x": [np.float32("nan"), float("-inf"), np.int64(2), (1.5, None)]})
    assert json.loads(path.read_text(), parse_constant=pytest.fail) == {"x": ["nan", "-inf", 2, [1.5, None]]}


@pytest.mark.parametrize(
    ("content", "match"), [(None, "There is no thing"), (b"{", "make it again"), (b"\xff", "make it")]
)
def test_json_that_cannot_be_read(tmp_path, content, match):
    path = tmp_path / "a.json"
    if content is not None:
        path.write_bytes(content)
    refused(match, read_json, path, "thing")
