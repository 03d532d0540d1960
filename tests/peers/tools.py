"""The tools themselves, run as their manuals say, on ONNX files with the same names of values."""

import subprocess
import sys
from pathlib import Path

CHECKED = "RUNNING | Iteration"
POLYGRAPHY = Path(sys.executable).with_name("polygraphy")


def run(healthy, faulty, inputs, folder):
    """Return what ``polygraphy run --onnx-outputs mark all --validate`` says of `faulty`, beside `healthy`.

    Parameters
    ----------
    healthy, faulty : path
        ONNX files.
    inputs : dict
        Arrays by name.
    folder : path
        For what it writes.

    Returns
    -------
    tuple of list of str
        Names of the outputs that differ, in its order; and of those that are not finite.
    """
    golden = _golden(healthy, inputs, folder)
    told = _polygraphy(folder, "run", faulty, *_checks(folder, golden)).stdout
    return _names(told, "FAILED | Output: '"), _names(told, "FAILED | Errors detected in output: ")


def reduce(healthy, faulty, inputs, folder):
    """Return the operators that ``polygraphy debug reduce`` leaves of `faulty`, and how often it ran the check.

    In two rounds, as its manual says: by bisection, and what is left an operator at a time.

    Parameters
    ----------
    healthy, faulty : path
        ONNX files.
    inputs : dict
        Arrays by name.
    folder : path
        For what it writes.
    """
    import onnx
    from polygraphy.comparator import RunResults
    from polygraphy.json import save_json

    golden = _golden(healthy, inputs, folder)
    layerwise, left = folder / "layerwise.json", folder / "reduced.onnx"
    ((_, (results,)),) = RunResults.load(str(golden)).items()
    save_json([{**inputs, **results}], str(layerwise))  # whatever it makes an input of a smaller model
    check = ["run", "polygraphy_debug.onnx", "--onnxrt", "--load-inputs", layerwise, "--load-outputs", golden]
    checks, model = 0, faulty
    for mode in ("bisect", "linear"):
        options = ["-o", left, "--mode", mode, "--load-inputs", layerwise]
        told = _polygraphy(folder, "debug", "reduce", model, *options, "--check", POLYGRAPHY, *check).stdout
        checks, model = checks + told.count(CHECKED), left
    return [node.name for node in onnx.load(left).graph.node], checks


def verification(program):
    """Return the names of which ``torch.onnx.verification`` warns, with intermediate results compared.

    Parameters
    ----------
    program : torch.onnx.ONNXProgram
        Its model holds the fault, and the exported program beside it does not.
    """
    from torch.onnx.verification import verify_onnx_program

    infos = verify_onnx_program(program, compare_intermediates=True)
    return [info.name for info in infos if info.max_abs_diff > 0.01 or info.max_rel_diff > 0.1]


def _golden(healthy, inputs, folder):
    """Have Polygraphy keep every result of the healthy model."""
    from polygraphy.json import save_json

    save_json([inputs], str(folder / "inputs.json"))
    golden = folder / "golden.json"
    _polygraphy(folder, "run", healthy, *_marked(folder), "--save-outputs", golden)
    return golden


def _marked(folder):
    return ["--onnxrt", "--onnx-outputs", "mark", "all", "--load-inputs", folder / "inputs.json"]


def _checks(folder, golden):
    return [*_marked(folder), "--load-outputs", golden, "--validate"]


def _polygraphy(folder, *arguments):
    return subprocess.run([POLYGRAPHY, *map(str, arguments)], cwd=folder, capture_output=True, text=True, check=False)


def _names(told, before):
    """Return what stands behind `before` in each line that has it."""
    found = (line.partition(before)[2].partition("'")[0].strip() for line in told.splitlines() if before in line)
    return list(dict.fromkeys(found))
