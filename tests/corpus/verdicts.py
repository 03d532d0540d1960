"""What is said of each case of the corpus: ``python -m tests.corpus.verdicts`` freezes it in `frozen_verdicts.json`.

A change of the engines is compared with these rows. Freeze them anew only where a verdict changed for the better.
"""

import json
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path

import kokoro_nb as nb
from kokoro_nb.backends import backend
from kokoro_nb.backends.exported import export_program
from kokoro_nb.faults import Fault, possible
from kokoro_nb.inspection import diagnose, inspect
from kokoro_nb.locate.verdicts import divergences
from tests.corpus import file_faults, forms, programs, wrong_exports
from tests.corpus.damage import DAMAGES, WRITERS
from tests.faults.other_kinds import KINDS

ROOT = Path(__file__).parents[2]
FROZEN = Path(__file__).with_name("frozen_verdicts.json")
_ON_ONNXRUNTIME = """
nan_channel sign_flip wrong_epsilon lost_operand wrong_dilation
"""
_ON_COREML = """
half_rounding wrong_epsilon dropped_bias wrong_dilation
"""
PLANTED_ON = {
    "eager": tuple(KINDS),
    "onnxruntime": _ON_ONNXRUNTIME.split(),
    "coreml-reference-float32": _ON_COREML.split(),
}
"""Backend -> kinds of fault that are planted on it: each kind in eager, and some again where a file is written."""


@cache
def _tiny():
    """Return `Tiny` exported, and what it computes in eager."""
    exported = export_program(programs.Tiny(), programs.tiny_inputs())
    return exported, _traced(exported, "eager", None)


def _traced(program, name, folder):
    inputs, on = programs.tiny_inputs(), backend(name)
    return on.load(on.export(program, inputs, folder)).trace(inputs, "all", "full")


def planted(kind, name, folder):
    """Plant a fault of this kind at its first place in `Tiny`, and name what is wrong on a backend."""
    exported, reference = _tiny()
    place = possible(exported.specification, [kind])[kind][0]
    found = divergences(reference, _traced(nb.plant(exported, Fault(kind, place, 0)), name, folder))
    return {"at": place, **_of_culprits(found), "verdict": "fail" if found else "pass"}


def _of_culprits(found):
    if not found:
        return {"first": "", "mechanism": ""}
    first = found[0]
    mechanism = first.mechanism.name if first.mechanisms else ""
    return {"first": " or ".join(first.candidates) or (first.tap.name if first.tap else ""), "mechanism": mechanism}


def sick(name, folder):
    """Diagnose a wrong export."""
    found = wrong_exports.diagnosed(wrong_exports.SICK[name], folder)
    return {"verdict": found.verdict, **_of_culprits(found.ranked)}


def healthy(name, on, folder):
    """Diagnose a healthy export."""
    module, inputs = wrong_exports.HEALTHY[name][0]()
    found = diagnose(module, inputs, on, folder=folder)
    return {"verdict": found.verdict, **_of_culprits(found.ranked)}


def _of_report(report):
    first = report.first
    if first is None:
        return {"verdict": report.verdict, "first": ""}
    named = {"first": first.key, "operator": first.operator, "blame": first.blame, "mechanism": first.kind}
    return {"verdict": report.verdict, **named}


def spoilt(kind, name, folder):
    """Inspect a file with a fault, beside the healthy one where it does not tell by itself."""
    return _of_report(file_faults.inspected_fault(kind, name, folder))


def quantised(name, folder):
    """Inspect a quantised file with a fault; of one whose range is too narrow, what is cut most."""
    report = file_faults.inspected_integers(name, folder)
    cut = max(report.budget.values, key=lambda one: one.clipped, default=None)
    return {**_of_report(report), **({"cut": cut.key} if cut and name.startswith("saturation") else {})}


def blamed(kind, folder):
    """Inspect a file of which it is known who is to blame."""
    report, (blame, key) = file_faults.inspected_blame(kind, folder)
    return {"right": f"{blame} {key}".strip(), **_of_report(report)}


def form(name, folder):
    """Inspect a healthy file of a form: how many of its nodes are judged."""
    report = inspect(*file_faults.healthy_file(name))
    judged = len(report.judgements) - len(report.unjudged)
    return {**_of_report(report), "nodes": report.nodes, "judged": judged}


@cache
def _damaged_rows():
    """Inspect every damaged file, all in one process of their own that starts one for each: see `damage`."""
    healthy = [str(file_faults.healthy_file(form)[0]) for form in dict.fromkeys(WRITERS.values())]
    command = [sys.executable, "-W", "ignore", "-m", "tests.corpus.damage", *healthy]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, cwd=ROOT, check=True)
    return dict(json.loads(line) for line in done.stdout.splitlines() if line.startswith("["))


def damaged(name, folder):
    """Return what was said of a damaged file: a report, or a sentence, of which the words before any figure."""
    return _damaged_rows()[name]


CASES = {
    **{f"planted {kind} on {on}": (planted, kind, on) for on, kinds in PLANTED_ON.items() for kind in kinds},
    **{f"sick: {name}": (sick, name) for name in wrong_exports.SICK},
    **{
        f"healthy: {name} on {on}": (healthy, name, on)
        for name, (_, all_) in wrong_exports.HEALTHY.items()
        for on in all_
    },
    **{f"form {name}": (form, name) for name in forms.FORMS},
    **{f"{kind} in {name}": (spoilt, kind, name) for name, kinds in file_faults.FORMS.items() for kind in kinds},
    **{f"integers: {name}": (quantised, name) for name in file_faults.IN_FILE},
    **{f"blame: {kind}": (blamed, kind) for kind in file_faults.BLAMED},
    **{f"damaged: {name}": (damaged, name) for name in DAMAGES},
}
"""Name -> what is called with its arguments and a folder of its own."""


def verdict(name):
    """Return what is said of a case."""
    call, *arguments = CASES[name]
    with tempfile.TemporaryDirectory() as folder:
        return call(*arguments, Path(folder))


if __name__ == "__main__":
    chosen = [name for name in CASES if not sys.argv[1:] or any(part in name for part in sys.argv[1:])]
    kept = json.loads(FROZEN.read_text(encoding="utf-8")) if sys.argv[1:] else {}
    kept |= {name: verdict(name) for name in chosen}
    rows = {name: kept[name] for name in CASES if name in kept}
    lines = ",\n".join(f"  {json.dumps(name)}: {json.dumps(row)}" for name, row in rows.items())
    FROZEN.write_text(f"{{\n{lines}\n}}\n", encoding="utf-8")
