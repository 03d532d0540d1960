"""The package changes nothing in another package: no attribute of its modules or classes, no registry, no garbage."""

import ast
import sys
from pathlib import Path

PACKAGE = Path(__file__).parents[1] / "kokoro_nb"
COLLECTOR = {"set_threshold", "freeze", "unfreeze", "disable"}
WRITES = {"update", "clear", "setdefault", "register", "register_pass", "register_torch_op"}


def _swaps(source):
    """Return what a module's source writes to in other packages, in words."""
    tree = ast.parse(source)
    foreign = _foreign(tree)
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign | ast.AugAssign | ast.AnnAssign | ast.Delete):
            targets = node.targets if isinstance(node, ast.Assign | ast.Delete) else [node.target]
            for target in targets:
                words = ast.unparse(target)
                inside = isinstance(target, ast.Attribute | ast.Subscript) and _root(target) in foreign
                if inside or words.startswith("sys.modules["):
                    found.append(words)
        elif isinstance(node, ast.Call):
            called = ast.unparse(node.func)
            method = isinstance(node.func, ast.Attribute) and node.func.attr in WRITES and _root(node.func) in foreign
            function = called in foreign and called in WRITES
            if called.endswith("patch.object") or called in {f"gc.{name}" for name in COLLECTOR} or method or function:
                found.append(called)
            elif called == "setattr" and _root(node.args[0]) in foreign:
                found.append(ast.unparse(node))
    return found


def _root(node):
    while isinstance(node, ast.Attribute | ast.Subscript):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""


def _foreign(tree):
    """Return the names that are imported from other packages, Python's own library left out."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            modules = [(alias.asname or alias.name.partition(".")[0], alias.name) for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and not node.level:
            modules = [(alias.asname or alias.name, node.module) for alias in node.names]
        else:
            continue
        for name, module in modules:
            package = module.partition(".")[0]
            if package != "kokoro_nb" and package not in sys.stdlib_module_names:
                found.add(name)
    return found


def test_no_module_changes_anything_in_another_package():
    found = {path: _swaps(path.read_text(encoding="utf-8")) for path in PACKAGE.rglob("*.py")}
    assert len(found) > 100
    assert {path: words for path, words in found.items() if words} == {}


SOURCES = {
    "from torch.fx import GraphModule\nGraphModule.recompile = print": "GraphModule.recompile",
    "import torch\ntorch.nn.Conv1d.forward = print": "torch.nn.Conv1d.forward",
    "from unittest.mock import patch\nimport torch\npatch.object(torch, 'sin', print)": "patch.object",
    "import sys\nsys.modules['spacy'] = None": "sys.modules['spacy']",
    "import gc\ngc.set_threshold(9)": "gc.set_threshold",
    "import torch\nsetattr(torch.Tensor, 'abs', print)": "setattr(torch.Tensor, 'abs', print)",
    "from coremltools.x import REGISTRY\nREGISTRY.names.update({})": "REGISTRY.names.update",
    "from coremltools.x import register_pass\n@register_pass(name='x')\nclass A: ...": "register_pass",
    "from executorch.x import cached\ncached.cache_clear()": "",
    "import gc\ngc.collect()": "",
    "import os\nos.environ['X'] = '1'": "",
    "import torch\nx = torch.zeros(3)\nx[0] = 1.0": "",
}


def test_the_search_finds_what_it_should():
    for source, found in SOURCES.items():
        assert _swaps(source) == ([found] if found else []), source
