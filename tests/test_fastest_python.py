import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[1] / ".ci/fastest-python"
SYSTEM = (Path("/usr/bin"), Path("/bin"))


def named(folder, pythons):
    """Return what the script prints where these are all that there is: name -> lines of a shell script."""
    folder.mkdir()
    for name, lines in pythons.items():
        (folder / name).write_text(f"#!/bin/sh\n{lines}\n", encoding="utf-8")
        (folder / name).chmod(0o755)
    for tool in ("sort", "head", "cut", "grep"):
        (folder / tool).symlink_to(next(path for path in SYSTEM if (path / tool).exists()) / tool)
    path = f"{folder / 'nothing'}:{folder}"
    done = subprocess.run(["/bin/sh", SCRIPT], env={"PATH": path}, capture_output=True, text=True, check=False)
    assert (done.returncode == 0) == (done.stdout != "")
    return done.stdout.strip()


@pytest.mark.parametrize(
    ("pythons", "chosen"),
    [
        ({"python3.11": "echo 0.05", "python3.12": "echo 1e-02"}, "python3.12"),
        ({"python3.11": "echo 0.05", "python3.12": "echo 0.2"}, "python3.11"),
        ({"python3.11": "exit 1", "python3.12": "echo 0.2"}, "python3.12"),
        ({"python3.11": "exit 1"}, None),
        ({}, None),
    ],
)
def test_the_fastest_is_named(tmp_path, pythons, chosen):
    folder = tmp_path / "with a space"
    assert named(folder, pythons) == (str(folder / chosen) if chosen else "")


@pytest.mark.parametrize(("version", "taken"), [("(3, 11)", True), ("(3, 10)", False), ("(3, 13)", False)])
def test_another_version_is_left_out(tmp_path, version, taken):
    first = "import sys, sysconfig; sysconfig.get_config_vars()"  # which go by the version too
    lines = f'exec "{sys.executable}" -c "{first}; sys.version_info = {version}\n$2"'
    assert (named(tmp_path / "bin", {"python3.11": lines}) != "") == taken
