"""Try the core with three sets of versions, each in an environment of its own: ``make versions``.

``python run_versions.py LOCKED ROOM [SET...]``: LOCKED is the interpreter of the workbook's environment, ROOM the
folder in which the others are made, one at a time, and removed again. ``ROOM/SET/`` keeps what ``tests/any_version.py``
wrote. From what lies there, of this run or an earlier one, ``tested.md`` beside this file and the table of tested
versions in the package are written. The exit status is 1 where something is not as it has to be.
"""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
SETS = ("old", "locked", "new")
TESTED = ROOT / "kokoro_nb" / "tested_versions.json"
SIZES = """
import json, importlib.metadata as m
print(json.dumps({one.metadata["Name"]: [one.version, sum(f.size or 0 for f in one.files or ())]
                  for one in m.distributions()}))
"""
HEAD = """\
# Tested with

Written by `make versions`. Of three modules, how many a runtime takes; of the operators of these, how many it shows;
which are named in the module that it gets wrong. The two that are right pass, where nothing else is said.

"""


def pip(python: Path, *arguments: str) -> str:
    """Run pip of an interpreter and return what it prints."""
    command = [str(python), "-m", "pip", *arguments, "--quiet", "--disable-pip-version-check"]
    return subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout


def installed(python: Path) -> dict[str, tuple[str, int]]:
    """Return name -> version and bytes of all that an interpreter has installed."""
    done = subprocess.run([str(python), "-I", "-c", SIZES], check=True, stdout=subprocess.PIPE, text=True)
    return {name: tuple(about) for name, about in json.loads(done.stdout).items()}


def brought(python: Path, install: bool) -> dict[str, object]:
    """Return what the core would bring and change beside an interpreter; if wanted, install it, and see."""
    before = installed(python)
    planned = json.loads(pip(python, "install", "--dry-run", "--report", "-", "."))["install"]
    names = {one["metadata"]["name"]: one["metadata"]["version"] for one in planned}
    about = {"planned": names, "changed": sorted(name for name in names if name in before and name != "kokoro_nb")}
    if install:
        pip(python, "install", "--no-compile", ".")
        shutil.rmtree(ROOT / "build")  # else the next one has what was deleted meanwhile
        after = installed(python)
        about["changed"] += sorted(name for name, one in before.items() if after.get(name) != one)
        own = {name: round(size / 1e6, 1) for name, (_, size) in after.items() if name not in before}
        about["MB"] = own
    return about


def tried(name: str, locked: Path, room: Path, other: Path | None) -> int:
    """Make an environment, try it and remove it; that of the workbook is there, and stays."""
    place, python = room / f".venv-{name}", locked
    folder = room / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    try:
        if name != "locked":
            subprocess.run([sys.executable, "-m", "venv", str(place)], check=True)
            python = place / "bin" / "python"
            pip(python, "install", "--no-compile", "-r", str(Path(__file__).with_name(f"{name}.txt")))
        about = brought(python, install=name != "locked")
        (folder / "core.json").write_text(json.dumps(about, indent=2), encoding="utf-8")
        command = [python, "-W", "ignore", ROOT / "tests" / "any_version.py", folder, *([other] if other else [])]
        return subprocess.run([*map(str, command)], cwd=room).returncode or int(bool(about["changed"]))
    finally:
        shutil.rmtree(place, ignore_errors=True)


def versions(folder: Path) -> dict[str, str]:
    """Return what was installed where the records of a folder were made."""
    record = sorted(folder.glob("*.healthy.json"))[-1]
    return json.loads(record.read_text(encoding="utf-8"))["versions"]


def cell(row: dict) -> str:
    """Return a row of ``rows.json`` in words."""
    found = [row[name] for name in ("healthy", "speech", "faulty") if name in row]
    if "skipped" in row or not found:
        return "-"
    counts = [tuple(map(int, re.findall(r"(\d+) of (\d+)", one)[0])) for one in found if "refused" not in one]
    shown, total = (sum(each) for each in zip(*counts, strict=True))
    healthy = ", a right one FAILS" if any(one.startswith("fail") for one in found[:2]) else ""
    named = f", names {', '.join(row['named']) or 'none'}" if "named" in row else ""
    return f"{len(counts)} of {len(found)}, {shown} of {total} shown{named}{healthy}"


def write(room: Path) -> None:
    """Write both tables from what lies in the room."""
    there = [name for name in SETS if (room / name / "rows.json").is_file()]
    rows = {name: json.loads((room / name / "rows.json").read_text(encoding="utf-8")) for name in there}
    known = {name: versions(room / name) for name in there}
    tested = json.loads(TESTED.read_text(encoding="utf-8"))
    each = {package: [known[name][package] for name in there if package in known[name]] for package in tested}
    lines = [f"| | {' | '.join(there)} |", f"|---|{'---|' * len(there)}"]
    lines += [f"| {name} | {' | '.join(known[one].get(name, '-') for one in there)} |" for name in ("python", *tested)]
    core = {name: json.loads((room / name / "core.json").read_text(encoding="utf-8")) for name in there}
    words = [", ".join(f"{name} {size} MB" for name, size in core[one].get("MB", {}).items()) for one in there]
    lines += [f"| brought by the core | {' | '.join(one or 'nothing' for one in words)} |"]
    lines += [f"| changed by it | {' | '.join(', '.join(core[one]['changed']) or 'nothing' for one in there)} |"]
    for place, first in enumerate(rows[there[0]]):
        cells = [cell(rows[name][place]) for name in there]
        lines += [f"| `{first['name']}` | {' | '.join(cells)} |"] if set(cells) != {"-"} else []
    Path(__file__).with_name("tested.md").write_text(HEAD + "\n".join(lines) + "\n", encoding="utf-8")
    if there == [*SETS]:
        ends = {name: [found[0].partition("+")[0], found[-1].partition("+")[0]] for name, found in each.items()}
        text = ",\n".join(f"  {json.dumps(name)}: {json.dumps(one)}" for name, one in ends.items())
        TESTED.write_text(f"{{\n{text}\n}}\n", encoding="utf-8")


if __name__ == "__main__":
    interpreter, rooms = Path(sys.argv[1]).absolute(), Path(sys.argv[2]).absolute()
    failed, last = [], None
    for one in sys.argv[3:] or SETS:
        if one not in SETS:
            sys.exit(f"There is no set '{one}'; the sets are {', '.join(SETS)}.")
        failed += [one] if tried(one, interpreter, rooms, last) else []
        last = rooms / one
    write(rooms)
    sys.exit(f"Not as it has to be: {', '.join(failed)}; see {rooms}." if failed else 0)
