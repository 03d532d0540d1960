"""Run models of ONNX in the interpreter that runs this file, on the ONNX Runtime beside it: it imports nothing of ours.

    python -I onnxruntime_elsewhere.py FOLDER

FOLDER holds ``request.json``, a list of models with whether they are optimised, and ``inputs.npz``. For each model its
outputs are written, and at last ``answer.json``: for each model the names or why it does not run.
"""

import json
import sys
from pathlib import Path


def _serve(folder: Path) -> None:
    import numpy as np
    import onnxruntime

    with np.load(folder / "inputs.npz") as saved:
        inputs = {name: saved[name] for name in saved.files}
    answer: list = []
    for number, (path, optimised) in enumerate(json.loads((folder / "request.json").read_text(encoding="utf-8"))):
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 4
        options.intra_op_num_threads = 1
        levels = onnxruntime.GraphOptimizationLevel
        options.graph_optimization_level = levels.ORT_ENABLE_ALL if optimised else levels.ORT_DISABLE_ALL
        try:
            session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
            results = session.run(None, inputs)
        except Exception as error:  # its exceptions share no class
            answer.append({"stopped": str(error)})
            continue
        kept = {
            one.name: value
            for one, value in zip(session.get_outputs(), results)  # noqa: B905  # an old Python knows no strict
            if isinstance(value, np.ndarray) and value.dtype.kind in "fiub"
        }
        np.savez(folder / f"outputs_{number}.npz", *kept.values())
        answer.append({"names": list(kept)})
    (folder / "answer.json").write_text(json.dumps(answer), encoding="utf-8")


if __name__ == "__main__":
    _serve(Path(sys.argv[1]))
