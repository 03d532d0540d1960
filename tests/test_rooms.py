"""Rooms that know their neighbours only, and modules without an import circle."""

import ast
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "kokoro_nb"
MUST_NOT_KNOW = {
    "traces": {"models", "backends"},
    "backends": {"models"},
    "listening": {"models", "backends", "traces"},
    "models": {"backends", "traces", "listening"},
    "faults": {"models"},
    "defects": {"models"},
    "locate": {"models"},
    "inspection": {"models"},
}


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
    """Return the modules that each module imports, wherever in it; the package itself, which imports late, left out."""
    edges = {}
    for name, source in sources.items():
        found = set()
        for node in _executed(ast.parse(source)):
            if isinstance(node, ast.Import):
                found |= {_module(alias.name, sources) for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and not node.level:
                found |= {_module(f"{node.module}.{alias.name}", sources) for alias in node.names}
        edges[name] = found - {name, None, "kokoro_nb"}
    del edges["kokoro_nb"]
    return edges


def _executed(tree):
    """Yield every node but those that only the type checker reads."""
    queue = [tree]
    while queue:
        node = queue.pop()
        if not (isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"):
            yield node
            queue += ast.iter_child_nodes(node)


def _module(dotted, sources):
    """Return the module that a dotted name is, or is a name of; None if it is not of this package."""
    while dotted and dotted not in sources:
        dotted = dotted.rpartition(".")[0]
    return dotted or None


def _unwanted(edges):
    """Return the imports from rooms that a room must not know."""
    return [
        (name, other)
        for name, others in edges.items()
        for other in others
        if other.split(".")[1] in MUST_NOT_KNOW.get(name.split(".")[1], ())
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
    assert _unwanted(edges) == []


def test_there_is_no_circle_of_imports(edges):
    assert _circle(edges) == []


def test_both_are_seen():
    sources = {"kokoro_nb": "", "kokoro_nb.models.a": "def late():\n    from kokoro_nb.models import b"}
    sources["kokoro_nb.models.b"] = "from kokoro_nb.models.a import name"
    sources["kokoro_nb.backends"] = "import kokoro_nb.models.a"
    edges = _edges(sources)
    assert _unwanted(edges) == [("kokoro_nb.backends", "kokoro_nb.models.a")]
    assert {*_circle(edges)} == {"kokoro_nb.models.a", "kokoro_nb.models.b"}
