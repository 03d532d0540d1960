"""The shape of the project: small modules, a quick import, and notebooks of one form."""

import ast
import json
import statistics
from pathlib import Path

import pytest

from kokoro_nb.run_apart import run_apart

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "kokoro_nb"
MODULES = sorted(PACKAGE.rglob("*.py"))
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
WITHOUT_VERBS = {"19_benchmarks"}  # times of programs in turn, which no verb takes apart
HEAVY = {"tvm", "executorch", "coremltools", "whisper", "onnxruntime", "librosa"}


def _heavy_imports(source):
    """Return the heavy packages that `source` imports when it is imported itself, not when a function is called."""
    found, queue = set(), list(ast.parse(source).body)
    while queue:
        node = queue.pop()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            continue
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            continue
        if isinstance(node, ast.Import):
            found |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and not node.level:
            found.add((node.module or "").split(".")[0])
        queue += ast.iter_child_nodes(node)
    return sorted(found & HEAVY)


def _text(cell):
    return "".join(cell["source"])


def _assigned(source):
    names = (node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Name))
    return {name.id for name in names if isinstance(name.ctx, ast.Store)}


def _faults(notebook):
    """Return what keeps `notebook`, as read from its JSON, from the form that all of them have."""
    cells = notebook["cells"]
    code = [cell for cell in cells if cell["cell_type"] == "code"]
    words = [cell for cell in cells if cell["cell_type"] == "markdown"]
    lines = [len(_text(cell).splitlines()) for cell in code]
    given = [cell for cell in cells if "parameters" in cell["metadata"].get("tags", ())]
    functions = [
        node
        for cell in code
        for node in ast.walk(ast.parse(_text(cell)))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
    ]
    declared = _assigned(_text(given[0])) if len(given) == 1 else set()
    title = cells[0] if cells else {"cell_type": "none", "source": ""}
    checks = {
        "has outputs": any(cell["outputs"] for cell in code),
        "has execution counts": any(cell["execution_count"] is not None for cell in code),
        "has not one cell tagged parameters": len(given) != 1,
        "has more than 40 cells": len(cells) > 40,
        "has a code cell of more than 15 lines": max(lines, default=0) > 15,
        "has code cells of more than 5 lines in the median": statistics.median(lines or [0]) > 5,
        "has a function of more than 10 lines": any(f.end_lineno - f.lineno >= 10 for f in functions),
        "does not begin with a title and a question": title["cell_type"] != "markdown"
        or not _text(title).startswith("# ")
        or "?" not in _text(title),
        "does not end with what it does not show": not words or "does not show" not in _text(words[-1]),
        "does not declare weights and out_dir": not {"weights", "out_dir"} <= declared,
    }
    return [fault for fault, found in checks.items() if found]


def _shared(named):
    """Return the names that stand in more than one file, with the files."""
    places = {}
    for name, path in named:
        places.setdefault(name, []).append(path.relative_to(ROOT).as_posix())
    return {name: paths for name, paths in places.items() if len(paths) > 1}


def _public_classes(source):
    body = ast.parse(source).body
    return [node.name for node in body if isinstance(node, ast.ClassDef) and not node.name.startswith("_")]


def test_no_two_modules_share_a_name():
    cases = PACKAGE / "defects" / "cases"  # named after what they belong to
    own = [path for path in MODULES if path.parent != cases and path.stem not in ("__init__", "__main__")]
    assert _shared((path.stem, path) for path in own) == {}


def test_no_two_public_classes_share_a_name():
    found = [(name, path) for path in MODULES for name in _public_classes(path.read_text(encoding="utf-8"))]
    assert len(found) > 100
    assert _shared(found) == {}
    files = (PACKAGE / "models" / "a.py", PACKAGE / "traces" / "a.py")  # and one that is shared is seen
    assert _public_classes("class Step:\n    class Inner:\n        pass\nclass _Own:\n    pass") == ["Step"]
    assert _shared(("Step", path) for path in files) == {"Step": ["kokoro_nb/models/a.py", "kokoro_nb/traces/a.py"]}


def test_no_module_is_longer_than_400_lines():
    files = [*MODULES, *PACKAGE.rglob("*.js"), *(ROOT / "tests").rglob("*.py")]
    lengths = {path: len(path.read_text(encoding="utf-8").splitlines()) for path in files}
    assert {path: length for path, length in lengths.items() if length > 400} == {}


def test_runtimes_are_imported_where_they_are_used():
    found = {path: _heavy_imports(path.read_text(encoding="utf-8")) for path in MODULES}
    assert {path: names for path, names in found.items() if names} == {}


def test_a_heavy_import_is_seen_at_the_top_alone():
    assert _heavy_imports("import onnxruntime as ort") == ["onnxruntime"]
    assert _heavy_imports("try:\n    from executorch.runtime import Runtime\nexcept ImportError:\n    pass") == [
        "executorch"
    ]
    assert _heavy_imports("class A:\n    import whisper") == ["whisper"]
    assert _heavy_imports("def f():\n    import librosa") == []
    assert _heavy_imports("if TYPE_CHECKING:\n    import librosa") == []


@pytest.mark.parametrize("module", ["kokoro_nb", "kokoro_nb.__main__"])
def test_importing_the_package_loads_neither_torch_nor_a_runtime(module):
    loaded = set(run_apart(["-c", f"import sys, {module}; print(*sys.modules)"]).stdout.split())
    assert module in loaded
    assert not {"torch", "numpy", "onnx", "kokoro", "transformers", "matplotlib", *HEAVY} & loaded


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_has_the_form_of_all_and_imports_the_package_and_its_own_study_alone(path):
    notebook = json.loads(path.read_text(encoding="utf-8"))
    assert _faults(notebook) == []
    others, names = _package_use(notebook, path.stem[3:])  # a study is named after its notebook, without the number
    assert others == []
    verbs = {name for name in names if name.startswith("nb.")} - {"nb.load_model", "nb.capture", "nb.Logbook"}
    assert verbs or (names and path.stem in WITHOUT_VERBS), "no cell calls a public verb"
    assert len([name for name in names if name.startswith("study.")]) <= 8, sorted(names)


def _package_use(notebook, study):
    """Return what `notebook` imports from the package besides the door and its study, and the names it uses of both."""
    trees = [ast.parse(_text(cell)) for cell in notebook["cells"] if cell["cell_type"] == "code"]
    nodes = [node for tree in trees for node in ast.walk(tree)]
    imports = [ast.unparse(node) for node in nodes if isinstance(node, ast.Import | ast.ImportFrom)]
    allowed = ("import kokoro_nb as nb", f"from kokoro_nb.studies import {study} as study")
    names = {
        f"{node.value.id}.{node.attr}"
        for node in nodes
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in ("nb", "study")
    }
    return [line for line in imports if "kokoro_nb" in line and line not in allowed], names


def test_what_a_notebook_imports_besides_is_seen():
    source = "import kokoro_nb as nb\nfrom kokoro_nb.studies import export as study\nnb.capture(study.b, study.b.c)"
    assert _package_use({"cells": [_cell("code", source)]}, "export") == ([], {"nb.capture", "study.b"})
    for line in (
        "from kokoro_nb.models import case",
        "from kokoro_nb.studies import voice as study",
        "import kokoro_nb",
    ):
        assert _package_use({"cells": [_cell("code", source), _cell("code", line)]}, "export")[0] == [line]


def _cell(kind, source, **more):
    cell = {"cell_type": kind, "metadata": {}, "source": source, **more}
    return {"outputs": [], "execution_count": None, **cell} if kind == "code" else cell


def _good():
    return [
        _cell("markdown", "# 01 Title\n\n**Does it hold?**"),
        _cell("code", "weights = 'narrow'\nout_dir = ''", metadata={"tags": ["parameters"]}),
        _cell("code", "print(weights)"),
        _cell("markdown", "## What this does not show\n\nAnything."),
    ]


LONG = "\n".join(f"a{i} = {i}" for i in range(16))
SPOILT = {
    "has outputs": lambda cells: cells[2].update(outputs=[{"output_type": "stream"}]),
    "has execution counts": lambda cells: cells[2].update(execution_count=3),
    "has not one cell tagged parameters": lambda cells: cells[2].update(metadata={"tags": ["parameters"]}),
    "has more than 40 cells": lambda cells: cells.extend([_cell("markdown", "x")] * 37),
    "has a code cell of more than 15 lines": lambda cells: cells[2].update(source=LONG),
    "has code cells of more than 5 lines in the median": lambda cells: cells[2].update(source="\n" * 10),
    "has a function of more than 10 lines": lambda cells: cells[2].update(source="def f():\n" + "    a = 1\n" * 10),
    "does not begin with a title and a question": lambda cells: cells[0].update(source="# 01 Title"),
    "does not end with what it does not show": lambda cells: cells.pop(),
    "does not declare weights and out_dir": lambda cells: cells[1].update(source="weights = 'narrow'"),
}


@pytest.mark.parametrize("fault", SPOILT)
def test_every_fault_of_a_notebook_is_seen(fault):
    cells = _good()
    assert _faults({"cells": cells}) == []
    SPOILT[fault](cells)
    assert fault in _faults({"cells": cells})
