"""Each room has a budget of code lines, which may be lowered and is not raised."""

import ast
import io
import tokenize
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
BUDGETS = {
    "studies": 1_977,
    "locate, inspection, faults, traces": 9_684,
    "backends": 4_085,
    "reporting": 2_960,
    "delivery": 2_606,
    "models": 2_341,
    "benchmarks": 649,
    "defects": 923,
    "listening": 695,
    "commands, top": 1_429,
    "tests": 19_743,
}
FILES = 236
LAYOUT = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}


def code_lines(text):
    """Return the number of lines that hold a token other than a comment or a docstring."""
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    nodes = [node for node in ast.walk(ast.parse(text)) if isinstance(node, documented)]
    texts = [node.body[0] for node in nodes if ast.get_docstring(node, clean=False) is not None]
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    spans = [(token.start[0], token.end[0]) for token in tokens if token.type not in LAYOUT]
    lines = {line for first, last in spans for line in range(first, last + 1)}
    return len(lines - {line for one in texts for line in range(one.lineno, one.end_lineno + 1)})


def rooms(root):
    """Return the code lines of each room with a budget or without one: folders of the package, its top, the tests."""
    room_of = {one: room for room in BUDGETS for one in room.split(", ")}
    counts = Counter()
    for path in sorted((root / "kokoro_nb").rglob("*.py")):
        inside = path.relative_to(root / "kokoro_nb").parts
        folder = inside[0] if len(inside) > 1 else "top"
        counts[room_of.get(folder, folder)] += code_lines(path.read_text(encoding="utf-8"))
    for path in sorted((root / "tests").rglob("*.py")):
        counts["tests"] += code_lines(path.read_text(encoding="utf-8"))
    return counts


def over(counts):
    """Return the rooms that are over their budget, or have none."""
    return {room: count for room, count in counts.items() if count > BUDGETS.get(room, 0)}


def test_no_room_is_over_its_budget():
    counts = rooms(ROOT)
    assert over(counts) == {}
    assert set(counts) == set(BUDGETS), "a room that is gone keeps no budget"


def test_the_package_has_no_more_files():
    assert len([*(ROOT / "kokoro_nb").rglob("*.py")]) <= FILES


def test_a_room_that_grows_is_seen(tmp_path):
    room = tmp_path / "kokoro_nb" / "models"
    room.mkdir(parents=True)
    (tmp_path / "tests").mkdir()
    (room / "grown.py").write_text("x = 1\n" * (BUDGETS["models"] + 1), encoding="utf-8")
    (tmp_path / "kokoro_nb" / "new").mkdir()
    (tmp_path / "kokoro_nb" / "new" / "module.py").write_text("y = 1\n", encoding="utf-8")
    assert over(rooms(tmp_path)) == {"models": BUDGETS["models"] + 1, "new": 1}


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ('"""A module."""\n\n# a comment\nx = 1\n', 1),
        ('def f():\n    """Return it."""\n    return """one\ntwo"""\n', 3),
        ("x = (\n    1,\n\n    2,  # three\n)\n", 4),
        ("", 0),
    ],
)
def test_comments_docstrings_and_empty_lines_are_no_code(text, count):
    assert code_lines(text) == count
