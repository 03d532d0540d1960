"""The pins stand in two files; both say the same, and it is what is installed."""

import ast
import re
import sys
import tomllib
from importlib.metadata import packages_distributions, version
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
ENVIRONMENT = yaml.safe_load((ROOT / "environment.yml").read_text(encoding="utf-8"))
PIN = re.compile(r"([A-Za-z0-9._-]+)==([\w.]+)")


SOURCES = {path: path.read_text(encoding="utf-8") for path in sorted((ROOT / "kokoro_nb").rglob("*.py"))}
UNIMPORTED = {
    "jupyterlab": "make lab starts it",
    "onnxscript": "torch.onnx exports through it",
    "phonemizer-fork": "misaki needs it for espeak",
    "torchao": "ExecuTorch quantises by it",
}
OPTIONAL = {"qai_hub"}  # a service's client: who has an account with it installs it
PROVIDERS = packages_distributions()


def _imported(source):
    """Return the top-level names of other packages that `source` imports, wherever it does so."""
    nodes = list(ast.walk(ast.parse(source)))
    names = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    names |= {node.module or "" for node in nodes if isinstance(node, ast.ImportFrom) and not node.level}
    return {name.split(".")[0] for name in names} - {"kokoro_nb"} - set(sys.stdlib_module_names)


def _undeclared(source, requirements):
    """Return what `source` imports from packages that `requirements` do not name."""
    declared = {_canonical(re.split("[=<>\\[]", line)[0]) for line in requirements}
    imported = _imported(source) - OPTIONAL
    return sorted(name for name in imported if not declared & set(map(_canonical, PROVIDERS.get(name, [name]))))


def _canonical(name):
    return re.sub("[-_.]+", "-", name).lower()


def _pip(environment):
    return next(entry["pip"] for entry in environment["dependencies"] if isinstance(entry, dict))


def test_conda_and_pip_install_the_same():
    assert PROJECT["dependencies"] == _pip(ENVIRONMENT)


def test_conda_brings_a_python_that_the_project_takes():
    assert ENVIRONMENT["name"] == PROJECT["name"]
    assert ENVIRONMENT["channels"] == ["conda-forge"]
    assert "python=3.11" in ENVIRONMENT["dependencies"]
    assert PROJECT["requires-python"] == ">=3.11,<3.13"


@pytest.mark.parametrize("requirement", [*PROJECT["dependencies"], *PROJECT["optional-dependencies"]["dev"]])
def test_what_is_pinned_is_installed(requirement):
    pin = PIN.fullmatch(requirement)
    assert pin, f"{requirement} is no exact pin"
    assert version(pin[1]).partition("+")[0] == pin[2]  # a local label, such as +cpu, names a build of the same version


def test_what_is_imported_is_declared():
    extras = PROJECT["optional-dependencies"]
    requirements = [*PROJECT["dependencies"], *extras["qnn"], *extras["clients"]]
    found = {path.relative_to(ROOT): _undeclared(source, requirements) for path, source in SOURCES.items()}
    assert {path: names for path, names in found.items() if names} == {}
    source = "import yaml\ndef late():\n    from PIL import Image\n    import os, numpy.linalg"
    assert _undeclared(source, ["numpy==2"]) == ["PIL", "yaml"], "one is seen wherever it is"
    assert _undeclared(source, ["numpy==2", "pillow==13", "PyYAML==6"]) == []


def test_every_pin_is_imported_or_says_why_not():
    imported = set().union(*map(_imported, SOURCES.values()))
    used = {_canonical(one) for name in imported for one in PROVIDERS.get(name, ())}
    names = {_canonical(line.partition("==")[0]) for line in PROJECT["dependencies"]}
    assert names - used == set(UNIMPORTED)
