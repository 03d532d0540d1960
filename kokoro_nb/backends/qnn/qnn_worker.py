"""What happens in the process in which Qualcomm's libraries run; `process.Worker` starts it and talks to it.

The libraries print past Python, and a graph that they stumble over ends the process (measured: a segmentation fault).
It is run as a file and imports nothing of this package, so it is ready in a third of a second.

A request is a pickled pair (name of an action, its arguments), an answer a pickled pair (whether it went well, the
result or class and text of the exception).
"""

import os
import pickle
from collections.abc import Callable, Sequence
from typing import Any

PROVIDER = "QNNExecutionProvider"
VERBOSE, ERRORS = 0, 3  # levels of ONNX Runtime's log
_open: list[Any] = []  # the session, if there is one


def compile_or_load(model: str, options: dict[str, str], config: dict[str, str], verbose: bool = False) -> list[Any]:
    """Open a session on the first Qualcomm device, and keep it.

    Parameters
    ----------
    model : str
        Path of an ONNX file: a model, or a context that was compiled from one.
    options : dict
        Provider options, without the path of the backend.
    config : dict
        Entries of the session's configuration.
    verbose : bool
        Have the log say all.

    Returns
    -------
    list of tuple
        Provider, name, domain and operator type of every node placed.
    """
    import onnxruntime
    import onnxruntime_qnn

    if not any(device.ep_name == PROVIDER for device in onnxruntime.get_ep_devices()):
        onnxruntime.register_execution_provider_library(PROVIDER, onnxruntime_qnn.get_library_path())
    devices = [device for device in onnxruntime.get_ep_devices() if device.ep_name == PROVIDER]
    settings = onnxruntime.SessionOptions()
    settings.log_severity_level = VERBOSE if verbose else ERRORS
    settings.add_session_config_entry("session.record_ep_graph_assignment_info", "1")
    for key, value in config.items():
        settings.add_session_config_entry(key, value)
    settings.add_provider_for_devices(devices[:1], {"backend_path": onnxruntime_qnn.get_qnn_htp_path(), **options})
    # Otherwise a run that fails on the NPU is repeated on the CPU, without a word.
    session = onnxruntime.InferenceSession(model, settings, enable_fallback=0)
    _open[:] = [session]
    placed = session.get_provider_graph_assignment_info()
    return [(part.ep_name, node.name, node.domain, node.op_type) for part in placed for node in part.get_nodes()]


def run(feeds: dict[str, Any], outputs: Sequence[str]) -> list[Any]:
    """Run the open session once.

    Parameters
    ----------
    feeds : dict
        Name -> array; an input that the session does not have is left out: the model does not read it.
    outputs : sequence of str
        Names in the file, in the order wanted.
    """
    (session,) = _open
    read = {node.name for node in session.get_inputs()}
    return session.run(list(outputs), {name: array for name, array in feeds.items() if name in read})


def optimise(model: str, path: str) -> None:
    """Write `model` to `path` as ONNX Runtime's basic optimisations leave it, without any provider but the CPU."""
    import onnxruntime

    settings = onnxruntime.SessionOptions()
    settings.log_severity_level = ERRORS
    settings.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
    settings.optimized_model_filepath = path
    onnxruntime.InferenceSession(model, settings, providers=["CPUExecutionProvider"])


ACTIONS: dict[str, Callable[..., Any]] = {"open": compile_or_load, "run": run, "optimise": optimise}


def main() -> None:
    """Answer requests from standard input until it is closed."""
    requests, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what native code prints must not come between the answers
    while True:
        try:
            action, arguments = pickle.load(requests)
        except EOFError:
            return
        try:
            answer = (True, ACTIONS[action](**arguments))
        except Exception as error:
            answer = (False, (type(error).__name__, str(error)))
        pickle.dump(answer, answers)
        answers.flush()


if __name__ == "__main__":
    main()
