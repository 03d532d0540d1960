"""The core requires little, extras bring the rest, and the lock has what the workbook is run with, and is installed."""

import ast
import re
import sys
import tomllib
from importlib.metadata import packages_distributions, requires, version
from pathlib import Path
from unittest.mock import Mock

import pytest
from lock import write_lock as lock

from kokoro_nb.__main__ import main
from kokoro_nb.errors import absent_package

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
EXTRAS = PROJECT["optional-dependencies"]
LOCKED = lock.read_lock() | lock.read_lock(lock.CPU)

SOURCES = {path: path.read_text(encoding="utf-8") for path in sorted((ROOT / "kokoro_nb").rglob("*.py"))}
# Started by `make lab`; what torch.onnx exports through, misaki has for espeak, ExecuTorch quantises and TVM calls by
UNIMPORTED = {"jupyterlab", "onnxscript", "phonemizer-fork", "torchao", "apache-tvm-ffi"}
OPTIONAL = {"qai_hub"}  # a service's client: who has an account with it installs it
PROVIDERS = packages_distributions()
LISTED = "jupyterlab torch numpy matplotlib librosa coremltools executorch apache-tvm papermill openai-whisper"


def packages_of(source):
    """Return the top-level names of other packages that `source` imports, wherever it does so."""
    nodes = list(ast.walk(ast.parse(source)))
    names = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    names |= {node.module or "" for node in nodes if isinstance(node, ast.ImportFrom) and not node.level}
    return {name.split(".")[0] for name in names} - {"kokoro_nb"} - set(sys.stdlib_module_names)


def _undeclared(source, requirements):
    """Return what `source` imports from packages that `requirements` do not name."""
    declared = set(map(lock.canonical, requirements))
    imported = packages_of(source) - OPTIONAL
    return sorted(name for name in imported if not declared & set(map(lock.canonical, PROVIDERS.get(name, [name]))))


def test_environment_yml_is_that_of_the_lock():
    text = (ROOT / "environment.yml").read_text(encoding="utf-8")
    assert text == lock.conda_file(LOCKED), "write it again: make lock"
    assert set(LISTED.split()) <= set(re.findall(r"- ([\w-]+)", text))
    assert re.search(r"name: (\w+)", text)[1] == PROJECT["name"]


def test_the_lock_has_all_that_is_required_with_its_hashes():
    assert {lock.canonical(line) for line in lock.requirements()} <= set(LOCKED)
    assert all(hashes and all(re.fullmatch("[0-9a-f]{64}", one) for one in hashes) for _, hashes in LOCKED.values())
    for path in (lock.LOCK, lock.CPU, lock.CUDA):
        assert not re.search("//|@", path.read_text(encoding="utf-8")), "it names a host or a path"
    needed = {lock.canonical(line) for name in LOCKED for line in requires(name) or [] if ";" not in line}
    assert needed <= set(LOCKED), "packages float that another one requires"


def test_what_is_locked_is_installed():
    assert version("torch").partition("+")[0] == LOCKED["torch"][0].partition("+")[0]  # whichever build it is
    locked = {name: pinned for name, (pinned, _) in LOCKED.items() if name not in lock.BUILT}
    assert {name: version(name) for name in locked} == locked


def test_the_core_and_the_extras_are_ranges_that_refuse_no_newer_runtime():
    ranged = PROJECT["dependencies"] + [line for name in EXTRAS if name != "clients" for line in EXTRAS[name]]
    assert not [line for line in ranged if re.search("==|<", line) and not line.startswith("ruff")]
    assert not {"torch", "onnx", "onnxruntime", "executorch"} & set(map(lock.canonical, PROJECT["dependencies"]))
    assert len(PROJECT["dependencies"]) <= 6


def test_what_is_imported_is_declared():
    requirements = [*lock.requirements(), *EXTRAS["qnn"], *EXTRAS["clients"]]
    found = {path.relative_to(ROOT): _undeclared(source, requirements) for path, source in SOURCES.items()}
    assert {path: names for path, names in found.items() if names} == {}
    source = "import yaml\ndef late():\n    from PIL import Image\n    import os, numpy.linalg"
    assert _undeclared(source, ["numpy==2"]) == ["PIL", "yaml"], "one is seen wherever it is"
    assert _undeclared(source, ["numpy>=2", "pillow>=13", "PyYAML>=6"]) == []


def test_every_requirement_is_imported_or_says_why_not():
    imported = set().union(*map(packages_of, SOURCES.values()))
    used = {lock.canonical(one) for name in imported for one in PROVIDERS.get(name, ())}
    assert set(map(lock.canonical, lock.requirements(["workbook"]))) - used == UNIMPORTED


@pytest.mark.parametrize("module", ["tvm.relax", "torch", "onnx", "IPython", "PIL"])
def test_an_absent_package_is_one_sentence_with_the_extra_that_brings_it(module, monkeypatch, capsys):
    extra = {"IPython": "workbook", "PIL": "workbook"}.get(module, module.partition(".")[0])
    sentence = f"{module} is not installed; install it with pip install 'kokoro_nb[{extra}]'."
    absent = ModuleNotFoundError(f"No module named '{module}'", name=module)
    assert str(absent_package(absent)) == sentence
    assert absent_package(ModuleNotFoundError("No module named 'mine'", name="mine")) is None
    assert absent_package(ImportError("cannot import name", name=module)) is None
    monkeypatch.setattr("kokoro_nb.commands.notebooks.doctor", Mock(side_effect=absent))
    assert main(["doctor"]) == 2
    assert capsys.readouterr().err == f"kokoro-nb: {sentence}\n"
