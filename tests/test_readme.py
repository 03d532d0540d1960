"""What the README shows is what works."""

import json
import re
from pathlib import Path

import torch

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_it_is_short():
    assert len(README) <= 8000


def test_its_example_names_the_culprit_and_the_cause(capsys):
    source = re.search(r"```python\n(.*?)```", README, re.DOTALL).group(1)
    assert len(source.splitlines()) <= 12
    names = {"__name__": "readme"}
    torch.manual_seed(0)
    exec(compile(source, "README.md", "exec"), names)
    found = names["found"]
    assert (found.verdict, found.method, found.first.tap.name) == ("fail", "tracing", ":instance_norm")
    printed = capsys.readouterr().out
    assert ":instance_norm is the first operator that is not finite" in printed
    assert "a variance in one pass" in printed


def test_every_notebook_is_in_its_table_with_its_question():
    rows = dict(re.findall(r"^\| `(\d\d_\w+)` \| (.*) \|$", README, re.MULTILINE))
    questions = {}
    for path in (ROOT / "notebooks").glob("*.ipynb"):
        title = "".join(json.loads(path.read_text(encoding="utf-8"))["cells"][0]["source"])
        questions[path.stem] = " ".join(re.search(r"\*\*(.*?)\*\*", title, re.DOTALL).group(1).split())
    assert rows == questions


def test_every_command_in_it_exists():
    from kokoro_nb.__main__ import _parser

    known = next(action.choices for action in _parser()._actions if action.choices)
    used = set(re.findall(r"kokoro-nb ([a-z-]+)", README))
    assert used
    assert used <= set(known)
