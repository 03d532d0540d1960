"""What the light core does with the PyTorch and the runtimes of any environment: ``any_version.py FOLDER [OTHER]``.

Three modules are diagnosed on every backend that runs here, a file of each format is inspected and records are
compared, all by the command line. ``FOLDER/rows.json`` has a row for each backend and each format; what is absent is
skipped, with its reason. ``FOLDER/BACKEND.MODULE.json`` are the records; those in OTHER, of another environment, are
compared with them. The exit status is 1 where something is not as it has to be.
"""

import json
import subprocess
import sys
from pathlib import Path

import torch
from torch import nn

import kokoro_nb as nb
from kokoro_nb.__main__ import main
from kokoro_nb.run_apart import run_apart

KNOWN = {  # what a runtime computes wrongly
    "onnxruntime": {"atan2"},
    "executorch-xnnpack": {"gelu", "instance_norm"},
    "executorch-portable": {"instance_norm"},
    "aot-inductor": {"mul"} if torch.__version__ < (2, 14) else set(),
    "coreml": {"remainder", "gelu", "atan2", "instance_norm"},
    "tvm": {"instance_norm", "mul", "atan2"},
}
REFUSED = {"onnxruntime": "lstm", "coreml": "lstm"}  # by torch.onnx of PyTorch 2.8, and by coremltools
FILES = {".onnx": "onnxruntime", ".pte": "executorch-xnnpack", ".mlpackage": "coreml-float32", ".pt2": ""}
PATIENCE = 1800  # seconds for all of a backend


class Speech(nn.Module):
    """What a vocoder is made of: convolutions, a transposed one, snakes, an LSTM, magnitude and phase."""

    def __init__(self):
        super().__init__()
        self.before, self.up = nn.Conv1d(8, 16, 3, padding=1), nn.ConvTranspose1d(16, 8, 4, stride=2, padding=1)
        self.norm, self.lstm, self.after = nn.LayerNorm(8), nn.LSTM(8, 8, batch_first=True), nn.Conv1d(8, 4, 1)

    def forward(self, x):
        x = self.before(x)
        x = self.up(x + torch.sin(x) ** 2)
        x = self.lstm(self.norm(x.transpose(1, 2)))[0].transpose(1, 2)
        magnitude, phase = self.after(nn.functional.leaky_relu(x, 0.1)).chunk(2, 1)
        return torch.exp(magnitude) * torch.cos(phase), torch.exp(magnitude) * torch.sin(phase)


class Faulty(nn.Module):
    """An operator for each runtime that gets it wrong."""

    def forward(self, x, zero, loud, infinite):
        wave = nn.functional.gelu(x, approximate="tanh")
        return wave, x % 1, torch.atan2(zero, x - 9), nn.functional.instance_norm(loud), infinite * 0


def healthy():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4), nn.Softmax(-1)), {"input": torch.randn(2, 8)}


def speech():
    torch.manual_seed(0)
    return Speech(), {"x": torch.randn(1, 8, 6)}


def faulty():
    draw, x = torch.Generator().manual_seed(0), torch.linspace(-4, 8, 97)
    loud = 10 + 0.01 * torch.randn(1, 16, 960, generator=draw)
    return Faulty(), {"x": x, "zero": torch.zeros(97), "loud": loud, "infinite": torch.tensor([1.0, torch.inf])}


def diagnosed(backend, folder):
    """Return a row and its faults: the verdicts, how many operators are shown, and which are named."""
    row, faults, family = {}, [], next(name for name in KNOWN if backend.startswith(name))
    page, script, record = folder / f"{backend}.html", folder / backend, folder / f"{backend}.faulty.json"
    for name in ("healthy", "speech", "faulty"):
        about = ["--no-remedies", "--json", f"{script}.{name}.json"]
        about += ["--html", str(page), "--bundle", str(script)] if name == "faulty" else []
        status = main(["diagnose", f"{__file__}:{name}", "--backend", backend, *about])
        if status > 1:
            return row, [f"{name}: exit status {status}"]
        found = json.loads(Path(about[2]).read_text(encoding="utf-8"))
        shown = sum(one["verdict"] != "unknown" for one in found["operators"])
        named = {one["op"].split(".")[1] for one in found["findings"] if one["tap"]}
        row[name] = f"{found['verdict']}, {shown} of {len(found['operators'])} shown"
        if found["failure"]:
            row[name] = f"refused: {', '.join(named)}"
        expected = KNOWN[family] if name == "faulty" else {REFUSED.get(family)} if found["failure"] else set()
        if not named <= expected or bool(named) != bool(expected):
            faults.append(f"{name}: {found['statement']}")
    faults += ["page"] if any(one["tap"] not in page.read_text(encoding="utf-8") for one in found["findings"]) else []
    row |= {"named": sorted(named), "script": (script / "repro.py").exists()}
    faults += ["compare with itself"] if main(["compare", str(record), str(record)]) else []
    faults += ["compare another"] if main(["compare", str(record), f"{script}.speech.json"]) != 2 else []
    return row, faults


def inspected(suffix, folder):
    """Return a row and its faults: a file of this format, compared with its module."""
    refused = suffix == ".mlpackage" or (suffix == ".onnx" and torch.__version__ < (2, 9))  # for its LSTM
    make = healthy if refused else speech
    (module, inputs), file = make(), folder / f"{make.__name__}{suffix}"
    if FILES[suffix]:
        file = nb.export(module, inputs, FILES[suffix], folder / "files").path
    else:
        torch.export.save(torch.export.export(module.eval(), tuple(inputs.values())), file)
    name, reference = f"{folder / 'file'}{suffix}.json", f"{__file__}:{make.__name__}"
    status = main(["inspect", str(file), "--against", reference, "--json", name, "--out", f"{name}.page"])
    if status > 1:
        return {}, [f"exit status {status}"]
    found = json.loads(Path(name).read_text(encoding="utf-8"))
    shown = sum(one["verdict"] != "unknown" for one in found["operators"])
    hidden = not shown and suffix != ".pte"  # of which ExecuTorch 0.7 shows nothing
    faults = [*(one["statement"] for one in found["findings"]), *(["no node is judged"] if hidden else [])]
    return {make.__name__: f"{found['verdict']}, {shown} of {len(found['operators'])} shown"}, faults


def compared(folder, other):
    """Compare the records of two environments, and return what went wrong."""
    for file in sorted(folder.glob("*.*.json")):
        if (other / file.name).exists() and file.name.split(".")[1] in ("healthy", "speech", "faulty"):
            done = run_apart(["-m", "kokoro_nb", "compare", other / file.name, file])
            file.with_suffix(".compared.txt").write_text(done.stdout, encoding="utf-8")
            yield from [f"{file.name}: {done.last_line}"] if done.status > 1 else []


def run(folder, other):
    """Give each backend and each format a process of its own, and write all rows."""
    rows = []
    for name in [*nb.BACKENDS, *FILES]:
        runtime = nb.BACKENDS.get(name) or nb.BACKENDS[FILES[name] or "eager"]
        absent = runtime.available() or (name in nb.BACKENDS and runtime.executes())
        row = {"name": name, "skipped": absent} if absent else {"name": name}
        if not absent and not name.startswith("eager"):
            done = subprocess.run([sys.executable, "-W", "ignore", __file__, folder, name], timeout=PATIENCE)
            answer = folder / f"{name}.row.json"
            own = json.loads(answer.read_text(encoding="utf-8")) if answer.exists() else {}
            row |= own or {"faults": [f"the process ended with {done.returncode}"]}
        print(json.dumps(row), flush=True)
        rows.append(row)
    faults = [*(compared(folder, other) if other else ()), *(one for row in rows for one in row.get("faults", ()))]
    (folder / "rows.json").write_text(json.dumps(rows, indent=2), encoding="utf-8")
    return 1 if faults or not any("healthy" in row for row in rows) else 0


if __name__ == "__main__":
    place, name = Path(sys.argv[1]).absolute(), sys.argv[2] if len(sys.argv) > 2 else ""
    place.mkdir(parents=True, exist_ok=True)
    if name in [*nb.BACKENDS, *FILES]:
        row, faults = (inspected if name in FILES else diagnosed)(name, place)
        (place / f"{name}.row.json").write_text(json.dumps({**row, "faults": faults}), encoding="utf-8")
    else:
        sys.exit(run(place, Path(name) if name else None))
