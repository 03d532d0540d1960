"""One file that shows a defect by itself, for an upstream report: what fails, the runtime's own call, what is right.

The code is that of the case and of its runner, without what is not reached; nothing of it is written twice.
"""

import ast
import importlib
import inspect
import re
import textwrap
from collections import defaultdict
from collections.abc import Collection, Iterator
from types import ModuleType
from typing import Any

from kokoro_nb.defects.catalogue import runner
from kokoro_nb.defects.defect_case import Defect

THERE, GONE = "The defect is there.", "The defect is gone."
LINES = 60  # a script has fewer
_JUDGED = """\
peak = np.abs(expected[np.isfinite(expected)]).max(initial=0) or 1.0
close = actual.shape == expected.shape and np.isclose(actual, expected, rtol=0, atol={limit!r} * peak, equal_nan=True)
wrong = ~np.asarray(close, bool)
print(f"{{wrong.sum()}} of {{wrong.size}} wrong\\nexpected: {{expected[wrong][:5]}}\\nactual:   {{actual[wrong][:5]}}")
print({there!r} if wrong.any() else {gone!r})
sys.exit(int(wrong.any()))
"""
_CAUGHT = """\
try:
    {call}
except Exception as error:
    if {error!r} not in str(error):
        raise
    print(f"expected: {{expected.ravel()[:5]}}\\nactual:   {{error}}"[:2000] + "\\n" + {there!r})
    sys.exit(1)
"""

Pieces = dict[str, tuple[ast.stmt, str]]


def report_script(defect: Defect) -> str:
    """Return a script that ends with 1 and `THERE` while the defect is there, and with 0 and `GONE` when it is not.

    It takes no argument and reads no file, and needs NumPy, torch and the packages of the defect. An error that the
    defect does not consist of is raised.
    """
    kinds = type(defect).__mro__[-2::-1]
    members: Pieces = {}
    for kind in kinds:
        members |= _pieces(inspect.getsource(kind), kind=True)
    run = runner(defect)
    around = [_module_of(kind) for kind in kinds] + ([run] if run else [])
    plain = defect.runner and not {"module", "seen"} & _own(defect)
    body = _as_a_module(defect, members) if plain else _as_a_class(defect, members)
    if run is not None:
        body = _runner(defect, run) + body
    text = "\n\n".join(part.strip("\n") for part in body if part)
    text = text.replace(type(defect).__name__ + ".", "Case.")
    title = f'"""{defect.title}."""'
    imports = "\n".join(_imports([inspect.getsource(module) for module in around], text))
    return f"{title}\n\n{imports}\n\n{text}\n"


def _as_a_module(defect: Defect, members: Pieces) -> list[str]:
    """Return what is exported as a module, the inputs, and the judgement."""
    form = members["broken"][1].replace("def broken(", "def forward(", 1)
    parts = ["class Form(nn.Module):\n" + textwrap.indent(form, " " * 4)]
    right = members["right"][1].replace("(self, ", "(", 1)
    own = "right" in _own(defect)
    reached = _reached(members, ["inputs"])
    taken = [members[name][1] for name in members if name in reached]
    parts += [right] if own else []
    expected = "right(*exact)" if own else "Form().double()(*exact)"
    options = "".join(f", {name}={value}" for name, value in defect.options(False).items())
    judged = _judgement(defect, expected, f"run(Form(), inputs{options})[0]", "inputs")
    return [*parts, "\n".join([*taken, judged])]


def _as_a_class(defect: Defect, members: Pieces) -> list[str]:
    """Return the case as a class, for what is more than one module, and the judgement."""
    own = _own(defect)
    seen = "seen" if "seen" in own else "module" if "module" in own else "broken"
    entries = [seen, *(["right"] if "right" in own else []), "inputs"]
    reached = _reached(members, entries)
    values = [name for name in members if name in reached and not _is_code(members[name][0])]
    body = ["\n".join(f"    {members[name][1]}" for name in values)]  # a text of several lines stands as it is
    body += [textwrap.indent(members[name][1], " " * 4) for name in members if name in reached and name not in values]
    exact = "case.right(*exact)" if "right" in own else "case.module(False).double()(*exact)"
    actual = {
        "seen": "case.seen(case.inputs, False, run)",
        "module": "run(case.module(False), case.inputs)[0]",
        "broken": "case.broken(*case.inputs.values())",
    }[seen]
    return ["class Case:\n" + "\n\n".join(body), _judgement(defect, exact, actual, "case.inputs")]


def _judgement(defect: Defect, expected: str, actual: str, inputs: str) -> str:
    start = "case = Case()\n" if inputs != "inputs" else ""
    exact = f"exact = [x.double() if x.is_floating_point() else x for x in {inputs}.values()]\n"
    call = f"actual = np.asarray({actual}, np.float64)"
    known = {"there": THERE, "gone": GONE}
    caught = _CAUGHT.format(call=call, error=defect.error, **known) if defect.error else f"{call}\n"
    right = f"with torch.no_grad():\n    expected = np.asarray({expected}, np.float64)\n"
    return start + exact + right + caught + _JUDGED.format(limit=defect.limit, **known)


def _runner(defect: Defect, run: ModuleType) -> list[str]:
    """Return what of a runner is reached by this defect."""
    pieces = _pieces(inspect.getsource(run))
    if hasattr(run, "operators"):
        pieces["OPERATORS"] = _only(pieces["OPERATORS"], _operators(defect, run))
    reached = _reached(pieces, ["run"], of_module=True)
    found: list[str] = []
    before = True
    for name in (name for name in pieces if name in reached):
        code, text = _is_code(pieces[name][0]), pieces[name][1]
        if code or before:
            found.append(text)
        else:
            found[-1] += f"\n{text}"
        before = code
    return found


def _operators(defect: Defect, run: ModuleType) -> Collection[str]:
    """Return the operators of the program that the defect's form becomes; none where it becomes none."""
    from kokoro_nb.backends.base import quietly

    try:
        with quietly():
            return run.operators(defect.module(False), defect.inputs, **defect.options(False))
    except Exception:
        if not defect.error:
            raise
        return ()


def _only(piece: tuple[ast.stmt, str], keys: Collection[str]) -> tuple[ast.stmt, str]:
    """Return a table in which only these keys are."""
    statement, text = piece
    assert isinstance(statement, ast.AnnAssign)
    assert isinstance(statement.value, ast.Dict)
    entries = zip(statement.value.keys, statement.value.values, strict=True)
    rows = [f"{ast.unparse(key)}: {ast.unparse(value)}" for key, value in entries if key and _named(key) in keys]
    text = "OPERATORS = {" + textwrap.indent(_filled(rows), " " * 4) + "}"
    return ast.parse(text).body[0], text


def _filled(rows: Collection[str]) -> str:
    """Return entries of a table, as many to a line as it holds."""
    lines = [""]
    for row in rows:
        if len(lines[-1]) + len(row) > 100:
            lines.append("")
        lines[-1] += f"{row}, "
    return "\n" + "\n".join(line.rstrip() for line in lines) + "\n" if rows else ""


def _named(key: ast.expr) -> Any:
    return key.value if isinstance(key, ast.Constant) else None


def _pieces(source: str, kind: bool = False) -> Pieces:
    """Return what a module or a class defines, by its name: the statement and its text without docstrings."""
    source = textwrap.dedent(source)
    body: list[ast.stmt] = ast.parse(source).body
    if kind:
        assert isinstance(body[0], ast.ClassDef)
        body = body[0].body
    found: Pieces = {}
    for statement in body:
        for name in _defined(statement):
            found[name] = (statement, _text(source, statement))
    return found


def _is_code(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.FunctionDef | ast.ClassDef)


def _defined(statement: ast.stmt) -> Iterator[str]:
    if isinstance(statement, ast.FunctionDef | ast.ClassDef):
        yield statement.name
    targets = statement.targets if isinstance(statement, ast.Assign) else [getattr(statement, "target", None)]
    for target in targets:
        if isinstance(target, ast.Name) and getattr(statement, "value", None) is not None:
            yield target.id


def _text(source: str, statement: ast.stmt) -> str:
    """Return the lines of a statement from the margin on, without the docstrings and annotations in it."""
    lines = source.splitlines()
    for node in ast.walk(statement):
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and ast.get_docstring(node):
            first = node.body[0]
            for number in range(first.lineno - 1, first.end_lineno or first.lineno):
                lines[number] = ""
    for start, end in sorted(_annotations(statement), reverse=True):  # the last first: places in a line stay
        rest = lines[end[0]][end[1] :]
        lines[end[0]] = lines[start[0]][: start[1]] + rest
        lines[start[0] : end[0]] = [""] * (end[0] - start[0])
    whole = [
        re.sub(r"  # type: .*", "", re.sub(r"^( *def .*)", _defaults, line))
        for line in lines[statement.lineno - 1 : statement.end_lineno]
    ]
    if not _is_code(statement):  # a text of several lines stands as it is
        return "\n".join([whole[0].lstrip(), *whole[1:]])
    return textwrap.dedent("\n".join(line for line in whole if line.strip()))


def _defaults(line: re.Match[str]) -> str:
    return re.sub(r"(\w) = ", r"\1=", line[0])


def _annotations(statement: ast.stmt) -> Iterator[tuple[tuple[int, int], tuple[int, int]]]:
    """Yield where each annotation begins and ends: line and column, from 0."""
    for node in ast.walk(statement):
        if isinstance(node, ast.arg) and node.annotation is not None:
            yield (node.lineno - 1, node.col_offset + len(node.arg)), _end(node.annotation)
        elif isinstance(node, ast.AnnAssign):
            yield _end(node.target), _end(node.annotation)
        elif isinstance(node, ast.FunctionDef) and node.returns is not None:
            end = _end(node.returns)
            yield (node.returns.lineno - 1, node.returns.col_offset - len(" -> ")), end


def _end(node: ast.expr) -> tuple[int, int]:
    assert node.end_lineno is not None
    assert node.end_col_offset is not None
    return node.end_lineno - 1, node.end_col_offset


def _reached(pieces: Pieces, entries: Collection[str], of_module: bool = False) -> set[str]:
    """Return what `entries` use, directly or not.

    What a module defines is reached by its name; what a class defines as an attribute, and by its name from its values.
    """
    found: set[str] = set()
    left = list(entries)
    while left:
        name = left.pop()
        if name in found or name not in pieces:
            continue
        found.add(name)
        by_name = of_module or not _is_code(pieces[name][0])
        for node in ast.walk(ast.parse(pieces[name][1])):
            if isinstance(node, ast.Name) and by_name:
                left.append(node.id)
            elif isinstance(node, ast.Attribute) and ast.unparse(node.value) in ("self", "type(self)"):
                left.append(node.attr)
    return found


def _imports(sources: Collection[str], text: str) -> list[str]:
    """Return the imports of `sources` that `text` needs, with what the judgement needs."""
    used = {node.id for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Name)}
    plain, named = {"import sys", "import numpy as np", "import torch"}, defaultdict[str, set[str]](set)
    for statement in (each for source in sources for each in ast.parse(source).body):
        if isinstance(statement, ast.Import):
            plain |= {f"import {ast.unparse(one)}" for one in statement.names if (one.asname or one.name) in used}
        elif isinstance(statement, ast.ImportFrom) and not str(statement.module).startswith("kokoro_nb"):
            named[str(statement.module)] |= {one.name for one in statement.names if one.name in used}
    lines = [*plain, *(f"from {module} import {', '.join(sorted(names))}" for module, names in named.items() if names)]
    return sorted(lines, key=lambda line: (line.split()[1].split(".")[0] in ("numpy", "torch"), line))


def _own(defect: Defect) -> set[str]:
    """Return what the case defines beyond every defect's own."""
    return {name for kind in type(defect).__mro__ if kind not in (Defect, object) for name in vars(kind)}


def _module_of(kind: type) -> ModuleType:
    return importlib.import_module(kind.__module__)
