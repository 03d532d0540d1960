"""One file that shows a defect by itself, for an upstream report: what fails, the runtime's own call, what is right.

The code is that of the case and of its runner, without what is not reached; nothing of it is written twice.
"""

import ast
import inspect
import textwrap
from collections.abc import Collection
from importlib import import_module

from kokoro_nb.defects.catalogue import runner
from kokoro_nb.defects.defect_case import Defect

THERE, GONE = "The defect is there.", "The defect is gone."
_JUDGED = f"""\
case = CASE()
expected = np.asarray(case.expected(case.inputs), np.float64)
try:
    actual = np.asarray(case.seen(case.inputs, "--mended" in sys.argv, RUN), np.float64)
except Exception as error:
    if not case.error or not re.search(case.error, f"{{type(error).__name__}}: {{error}}"):
        raise
    print(f"expected: {{expected.ravel()[:5]}}\\nactual:   {{error}}"[:2000] + "\\n{THERE}")
    sys.exit(1)
peak = np.abs(expected[np.isfinite(expected)]).max(initial=0) or 1.0
close = actual.shape == expected.shape and np.isclose(actual, expected, rtol=0, atol=case.limit * peak, equal_nan=True)
wrong = ~np.asarray(close, bool)
print(f"{{wrong.sum()}} of {{wrong.size}} wrong\\nexpected: {{expected[wrong][:5]}}\\nactual:   {{actual[wrong][:5]}}")
print("{THERE}" if wrong.any() else "{GONE}")
sys.exit(int(wrong.any()))
"""
_NEEDED = ("seen", "expected", "inputs", "limit", "error")  # of a case, by the judgement
_Pieces = dict[str, tuple[ast.stmt, str]]


def report_script(defect: Defect) -> str:
    """Return a script that ends with 1 and `THERE` while the defect is there, and with 0 and `GONE` when it is not.

    It reads no file, and needs NumPy, torch and the packages of the defect; with ``--mended`` it runs the control. An
    error that the defect does not consist of is raised.
    """
    kinds = type(defect).__mro__[-2::-1]
    above = dict(zip(kinds[1:], kinds, strict=False))
    members = {kind: _pieces(inspect.getsource(kind), of_class=True) for kind in kinds}
    reached = _reached([piece for kind in kinds for piece in members[kind].items()], _NEEDED, of_class=True)
    run, body = runner(defect), []
    if run is not None:
        pieces = _pieces(inspect.getsource(run))
        called = _reached([*pieces.items()], ["run"])
        body += [text for name, (_, text) in pieces.items() if name in called]
    for kind in kinds:
        held = [text for name, (_, text) in members[kind].items() if name in reached]
        base = f"({above[kind].__name__})" if kind in above else ""
        body.append(f"class {kind.__name__}{base}:\n" + ("\n".join(map(_indented, held)) or "    pass"))
    body.append(_JUDGED.replace("CASE", type(defect).__name__).replace("RUN", "run" if run else "None"))
    text = "\n\n".join(body)
    modules = {kind.__module__ for kind in kinds} | ({run.__name__} if run else set())
    sources = [inspect.getsource(import_module(name)) for name in sorted(modules)]
    return f'"""{defect.title}."""\n\n{_imports(sources, text)}\n\n{text}'


def _indented(text: str) -> str:
    """Return a member of a class; a text of several lines in it stands as it is."""
    return textwrap.indent(text, " " * 4) if text.startswith(("def ", "class ", "@")) else f"    {text}"


def _pieces(source: str, of_class: bool = False) -> _Pieces:
    """Return what a module or a class defines, by its name: the statement and its text without docstrings."""
    source = textwrap.dedent(source)
    body: list[ast.stmt] = ast.parse(source).body
    if of_class:
        assert isinstance(body[0], ast.ClassDef)
        body = body[0].body
    found: _Pieces = {}
    for statement in body:
        if isinstance(statement, ast.FunctionDef | ast.ClassDef):
            names = [statement.name]
        else:
            targets = getattr(statement, "targets", [getattr(statement, "target", None)])
            names = [one.id for one in targets if isinstance(one, ast.Name) and getattr(statement, "value", None)]
        found |= dict.fromkeys(names, (statement, _text(source, statement)))
    return found


def _text(source: str, statement: ast.stmt) -> str:
    """Return the lines of a statement from the margin on, without the docstrings in it."""
    kept = dict(enumerate(source.splitlines(), 1))
    for node in ast.walk(statement):
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and ast.get_docstring(node):
            for number in range(node.body[0].lineno, (node.body[0].end_lineno or 0) + 1):
                del kept[number]
    start = next((one.lineno for one in getattr(statement, "decorator_list", [])), statement.lineno)
    lines = [line for number, line in kept.items() if start <= number <= (statement.end_lineno or start)]
    if isinstance(statement, ast.FunctionDef | ast.ClassDef):
        return textwrap.dedent("\n".join(line for line in lines if line.strip()))
    return "\n".join([lines[0].lstrip(), *lines[1:]])


def _reached(
    pieces: Collection[tuple[str, tuple[ast.stmt, str]]], entries: Collection[str], of_class: bool = False
) -> set[str]:
    """Return what `entries` use, directly or not.

    What a module defines is reached by its name; what a class defines as an attribute, and by its name from its values.
    """
    found: set[str] = set()
    left = list(entries)
    while left:
        name = left.pop()
        if name in found:
            continue
        found.add(name)
        for statement in (one for known, (one, _) in pieces if known == name):
            by_name = not of_class or not isinstance(statement, ast.FunctionDef | ast.ClassDef)
            for node in ast.walk(statement):
                if isinstance(node, ast.Name) and by_name:
                    left.append(node.id)
                elif isinstance(node, ast.Attribute) and ast.unparse(node.value) in ("self", "type(self)", "super()"):
                    left.append(node.attr)
    return found


def _imports(sources: Collection[str], text: str) -> str:
    """Return the imports of `sources` that `text` needs."""
    used = {node.id for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Name)}
    found = {"import re", "import sys", "import numpy as np"}
    for statement in (each for source in sources for each in ast.parse(source).body):
        if isinstance(statement, ast.Import):
            found |= {f"import {ast.unparse(one)}" for one in statement.names if (one.asname or one.name) in used}
        elif isinstance(statement, ast.ImportFrom) and not str(statement.module).startswith("kokoro_nb"):
            found |= {f"from {statement.module} import {one.name}" for one in statement.names if one.name in used}
    return "\n".join(sorted(found))
