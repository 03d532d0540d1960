"""The pins stand in two files; both say the same, and it is what is installed."""

import re
import tomllib
from importlib.metadata import version
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
ENVIRONMENT = yaml.safe_load((ROOT / "environment.yml").read_text(encoding="utf-8"))
PIN = re.compile(r"([A-Za-z0-9._-]+)==([\w.]+)")


def _differences(ours, theirs):
    """Return the pins that stand on one side only, comments aside."""
    return sorted(set(ours) ^ set(theirs))


def _pip(environment):
    return next(entry["pip"] for entry in environment["dependencies"] if isinstance(entry, dict))


def test_conda_and_pip_install_the_same():
    assert _differences(PROJECT["dependencies"], _pip(ENVIRONMENT)) == []
    assert PROJECT["dependencies"] == _pip(ENVIRONMENT)


def test_a_difference_is_seen():
    assert _differences(["a==1", "b==2"], ["a==1", "b==3"]) == ["b==2", "b==3"]
    assert _differences(["a==1"], []) == ["a==1"]


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
