"""Write the lock beside this file, and environment.yml, from the extras of pyproject.toml: `make lock`.

Versions stay as they are in the lock; those of packages that are named as arguments (or of ``all``) may rise. pip
chooses the files, and names their SHA-256; ``--hashes`` alone adds those of this Python and machine to a lock that
another has written.
"""

import json
import re
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path

ROOT = Path(__file__).parents[2]
LOCK, CPU, CUDA = (Path(__file__).with_name(name) for name in ("requirements.txt", "cpu.txt", "cuda.txt"))
BUILT = ("torch", "triton")  # whose versions depend on the build of torch
EXTRAS = ("workbook", "dev")
HEAD = "# Written by `make lock` from the extras of pyproject.toml; see data/lock/write_lock.py.\n"
CONDA = """\
# Written by `make lock`; the versions are those of data/lock/requirements.txt.
#   conda env create -f environment.yml && conda activate kokoro_nb && pip install --no-deps -e .
name: kokoro_nb
channels:
  - conda-forge
dependencies:
  - python=3.11
  - pip
  - pip:
"""

Rows = dict[str, tuple[str, set[str]]]  # canonical name -> version, SHA-256 of its files


def canonical(requirement: str) -> str:
    """Return the name of the package that a requirement asks for, as PEP 503 writes it."""
    return re.sub("[-_.]+", "-", re.split(r"[^\w.-]", requirement, maxsplit=1)[0]).lower()


def requirements(extras: Iterable[str] = EXTRAS, project: Mapping | None = None) -> list[str]:
    """Return what the project and its extras require, an extra that names others resolved, each line once."""
    if project is None:
        project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    found = list(project["dependencies"])
    for extra in extras:
        for line in project["optional-dependencies"][extra]:
            inner = re.fullmatch(rf"{project['name']}\[(.*)\]", line)
            found += requirements(inner[1].split(","), project) if inner else [line]
    return list(dict.fromkeys(found))


def read_lock(path: Path = LOCK) -> Rows:
    """Return what a lock pins; nothing where there is none."""
    text = path.read_text(encoding="utf-8").replace("\\\n", "") if path.is_file() else ""
    rows = (line.split() for line in text.splitlines() if line and not line.startswith("#"))
    return {
        pin.partition("==")[0]: (pin.partition("==")[2], {one.removeprefix("--hash=sha256:") for one in hashes})
        for pin, *hashes in rows
    }


def conda_file(rows: Rows) -> str:
    """Return environment.yml: what is required by name, in the locked versions."""
    names = [canonical(line) for line in requirements(EXTRAS[:1])]
    return CONDA + "".join(f"      - {name}=={rows[name][0].partition('+')[0]}\n" for name in names)


def _chosen(asked: Iterable[str], kept: Rows, *options: str) -> Rows:
    """Return what pip would install in an empty environment, the versions of `kept` kept."""
    with tempfile.TemporaryDirectory() as folder:
        wanted, held, report = (Path(folder) / name for name in ("wanted.txt", "held.txt", "report.json"))
        wanted.write_text("\n".join(asked), encoding="utf-8")
        held.write_text("\n".join(f"{name}=={version}" for name, (version, _) in kept.items()), encoding="utf-8")
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--dry-run", "--ignore-installed", *options]
        subprocess.run([*command, "--report", report, "-r", wanted, "-c", held], check=True)
        found = json.loads(report.read_text(encoding="utf-8"))["install"]
    return {
        canonical(one["metadata"]["name"]): (
            one["metadata"]["version"],
            {one["download_info"]["archive_info"]["hashes"]["sha256"]},
        )
        for one in found
    }


def _joined(new: Rows, old: Rows) -> Rows:
    """Return `new` with the hashes that `old` has of the same versions."""
    return {
        name: (version, hashes | (old[name][1] if old.get(name, ("",))[0] == version else set()))
        for name, (version, hashes) in new.items()
    }


def _write(path: Path, rows: Rows) -> None:
    lines = (
        " \\\n    ".join([f"{name}=={version}", *(f"--hash=sha256:{one}" for one in sorted(hashes))])
        for name, (version, hashes) in sorted(rows.items())
    )
    path.write_text(HEAD + "\n".join(lines) + "\n", encoding="utf-8")


def main(arguments: list[str]) -> None:
    """Write the lock, a file for each build of torch, and environment.yml; or add this Python's hashes."""
    if arguments == ["--hashes"]:
        for path in (LOCK, CUDA):
            rows = read_lock(path)
            _write(path, _joined(_chosen([f"{name}=={rows[name][0]}" for name in rows], {}, "--no-deps"), rows))
        return
    before = read_lock() | read_lock(CPU)
    kept = {name: row for name, row in before.items() if name not in map(canonical, arguments)}
    rows = _chosen(requirements(), {} if arguments == ["all"] else kept)
    if not rows["torch"][0].endswith("+cpu"):
        sys.exit("This index has no build of torch for processors alone; name PyTorch's with --extra-index-url.")
    ours = {name: row for name, row in rows.items() if name not in BUILT}
    cuda = _chosen([f"torch==={rows['torch'][0].removesuffix('+cpu')}"], ours)
    _write(LOCK, _joined(ours, before))
    _write(CPU, _joined({name: rows[name] for name in BUILT}, before))
    _write(CUDA, _joined({name: row for name, row in cuda.items() if name not in ours}, read_lock(CUDA)))
    (ROOT / "environment.yml").write_text(conda_file(rows), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
