"""Rooms that know their neighbours only, and modules without an import circle."""

import ast
import re
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

MODULE = re.compile(r"kokoro_nb(\.\w+)+")
PACKAGE = Path(__file__).parents[1] / "kokoro_nb"
FLOORS = (
    *("", "listening", "models", "traces", "backends", "faults", "defects", "locate", "inspection", "delivery"),
    *("benchmarks", "studies", "reporting", "verbs", "commands", "__main__"),
)
"""The rooms from the ground up, single modules that all may know as ``""``; each imports from those below it only."""
NO_MODEL = ("traces", "backends", "faults", "defects", "locate", "inspection")  # they know models by no name


def _read():
    """Return the source of every module by its dotted name."""
    sources = {}
    for path in PACKAGE.rglob("*.py"):
        name = ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts)
        if path.name == "__init__.py":
            name = name.removesuffix(".__init__")
        sources[name] = path.read_text(encoding="utf-8")
    return sources


def _edges(sources):
    """Return what each module imports, for the type checker alone or by a string too; but for the package itself."""
    edges = {}
    for name, source in sources.items():
        found = set()
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.Import):
                found |= {_module(alias.name, sources) for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                assert not node.level, f"{name} imports by a relative path"
                found |= {_module(f"{node.module}.{alias.name}", sources) for alias in node.names}
            elif isinstance(node, ast.Constant) and isinstance(node.value, str) and MODULE.fullmatch(node.value):
                found.add(_module(node.value, sources))
        edges[name] = found - {name, None, "kokoro_nb"}
    del edges["kokoro_nb"]
    return edges


def _module(dotted, sources):
    """Return the module that a dotted name is, or is a name of; None if it is not of this package."""
    while dotted and dotted not in sources:
        dotted = dotted.rpartition(".")[0]
    return dotted or None


def _room(name):
    room = name.split(".")[1]
    return room if room in FLOORS else ""


def _unwanted(edges):
    """Return the imports from a room above, or of a model where none is known."""
    pairs = [(name, other) for name, others in edges.items() for other in others]
    return [
        (name, other)
        for name, other in pairs
        if FLOORS.index(_room(other)) > FLOORS.index(_room(name))
        or (_room(name) in NO_MODEL and _room(other) == "models")
    ]


def _circle(edges):
    """Return a circle of imports, or an empty list."""
    try:
        TopologicalSorter(edges).prepare()
    except CycleError as error:
        return error.args[1]
    return []


@pytest.fixture(scope="module")
def edges():
    return _edges(_read())


def test_no_room_knows_what_it_must_not(edges):
    assert len(edges) > 100
    assert {_room(name) for name in edges} == set(FLOORS), "every room has its place"
    assert _unwanted(edges) == []


def test_every_folder_is_a_room():
    assert {path.name for path in PACKAGE.iterdir() if (path / "__init__.py").is_file()} <= set(FLOORS)


def test_there_is_no_circle_of_imports(edges):
    assert _circle(edges) == []


def test_both_are_seen():
    sources = {"kokoro_nb": "", "kokoro_nb.models.a": "def late():\n    from kokoro_nb.models import b"}
    sources["kokoro_nb.models.b"] = "if TYPE_CHECKING:\n    from kokoro_nb.models.a import name"
    sources["kokoro_nb.backends"] = "import kokoro_nb.models.a"
    sources["kokoro_nb.storage"] = "importlib.import_module('kokoro_nb.backends')"
    edges = _edges(sources)
    assert _unwanted(edges) == [
        ("kokoro_nb.backends", "kokoro_nb.models.a"),
        ("kokoro_nb.storage", "kokoro_nb.backends"),
    ]
    assert {*_circle(edges)} == {"kokoro_nb.models.a", "kokoro_nb.models.b"}
