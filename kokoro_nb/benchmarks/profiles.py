"""Where the time goes, by family of operators, by each runtime's own profiler."""

import json
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kokoro_nb.backends.base import quietly
from kokoro_nb.backends.executorch import ExecutorchProgram
from kokoro_nb.backends.onnx import OnnxProgram
from kokoro_nb.backends.signature import Arrays, checked
from kokoro_nb.backends.tvm.compiled_program import TvmProgram
from kokoro_nb.benchmarks.families import FAMILIES, family, shares

Event = tuple[str, tuple[int, ...], float]  # name of an operator, shape of its kernel if it is known, seconds
_AROUND = "around the calls"
CALLS = 3


@dataclass(frozen=True)
class Profile:
    """Where one program's time went.

    Attributes
    ----------
    profiler : str
        That of the runtime.
    seconds : dict
        Family -> seconds of a call.
    wall : float
        Seconds of a call from outside, while it was profiled.
    names : dict
        Family -> seconds of a call by operator, as the runtime calls it, the largest first.
    """

    profiler: str
    seconds: Mapping[str, float]
    wall: float
    names: Mapping[str, Mapping[str, float]] = field(repr=False)

    @property
    def total(self) -> float:
        """Seconds of a call in all operators."""
        return sum(self.seconds.values())

    def as_dict(self) -> dict[str, float]:
        """Return the columns of a table: the share of the call accounted for, and each family's share of that."""
        return {
            "accounted for": self.total / self.wall,
            **{f"{k} (%)": 100 * v for k, v in shares(self.seconds).items()},
        }


def profile(program: Any, inputs: Arrays, calls: int = CALLS) -> Profile | str:
    """Profile a loaded program, on average over some calls after a first one.

    An STFT made of convolutions is recognised by its kernel's shape, which ONNX Runtime packs away and ExecuTorch does
    not report: there it is among the convolutions.

    Parameters
    ----------
    program : Program
        From `Backend.load`.
    inputs : mapping
        As for its `run`.
    calls : int
        How many.

    Returns
    -------
    Profile or str
        The reason where the runtime has no profiler.
    """
    profiler = next((each for kind, each in _PROFILERS if isinstance(program, kind)), None)
    if profiler is None and hasattr(program, "module"):
        profiler = _eager
    return profiler(program, inputs, calls) if profiler else f"{program.backend} does not report times of operators."


def summed(profiler: str, events: Iterable[Event], calls: int, wall: float) -> Profile:
    """Add up the events of `calls` calls, by family and by name."""
    names: dict[str, dict[str, float]] = {}
    for name, kernel, seconds in events:
        within = names.setdefault(family(name, kernel), {})
        within[name] = within.get(name, 0.0) + seconds / calls
    ordered = {kind: dict(sorted(names[kind].items(), key=lambda item: -item[1])) for kind in FAMILIES if kind in names}
    return Profile(profiler, {kind: sum(each.values()) for kind, each in ordered.items()}, wall / calls, ordered)


def _timed(call: Callable[[], Any], calls: int) -> float:
    start = time.perf_counter()
    for _ in range(calls):
        call()
    return time.perf_counter() - start


def _eager(program: Any, inputs: Arrays, calls: int) -> Profile:
    from torch.profiler import ProfilerActivity
    from torch.profiler import profile as watch

    program.run(inputs)
    with quietly(), watch(activities=[ProfilerActivity.CPU], record_shapes=True) as seen:
        wall = _timed(lambda: program.run(inputs), calls)
    # of operators that call each other, each without those that it calls
    events = ((each.name, _second(each.input_shapes), each.self_cpu_time_total / 1e6) for each in seen.events())
    return summed("torch.profiler", events, calls, wall)


def _second(shapes: Any) -> tuple[int, ...]:
    return tuple(shapes[1]) if shapes and len(shapes) > 1 and isinstance(shapes[1], list) else ()


def _onnx(program: OnnxProgram, inputs: Arrays, calls: int) -> Profile:
    import onnxruntime

    arrays = checked(inputs, program.inputs)
    with tempfile.TemporaryDirectory() as room, quietly():
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = program.session.get_session_options().intra_op_num_threads
        options.enable_profiling = True
        options.profile_file_prefix = str(Path(room) / "profile")
        session = onnxruntime.InferenceSession(str(program.path), options, providers=["CPUExecutionProvider"])
        fed = dict(zip((node.name for node in session.get_inputs()), arrays.values(), strict=True))
        session.run(None, fed)
        wall = _timed(lambda: session.run(None, fed), calls)
        output = json.loads(Path(session.end_profiling()).read_text(encoding="utf-8"))
    return summed("ONNX Runtime's profile", _onnx_events(output), calls, wall)


def _onnx_events(output: list[Mapping[str, Any]]) -> list[Event]:
    """Return the operators of all runs but the first."""
    first = min(each["ts"] + each["dur"] for each in output if each["name"] == "model_run")
    return [
        (each["args"]["op_name"], _onnx_kernel(each["args"].get("input_type_shape", [])), each["dur"] / 1e6)
        for each in output
        if each.get("cat") == "Node" and each["name"].endswith("_kernel_time") and each["ts"] > first
    ]


def _onnx_kernel(inputs: list[Mapping[str, list[int]]]) -> tuple[int, ...]:
    return tuple(next(iter(inputs[1].values()), ())) if len(inputs) > 1 else ()


def _executorch(program: ExecutorchProgram, inputs: Arrays, calls: int) -> Profile:
    import torch
    from executorch.devtools.etdump.serialize import deserialize_from_etdump_flatcc
    from executorch.extension.pybindings.portable_lib import _load_for_executorch

    tensors = [torch.tensor(array) for array in checked(inputs, program.inputs).values()]
    with tempfile.TemporaryDirectory() as room, quietly():
        module = _load_for_executorch(str(program.path), enable_etdump=True)
        module.run_method("forward", tensors)
        wall = _timed(lambda: module.run_method("forward", tensors), calls)
        path = Path(room) / "events.etdump"
        module.write_etdump_result_to_file(str(path))
        output = deserialize_from_etdump_flatcc(path.read_bytes()).run_data
    runs = [run for run in output if run.name == "Execute"][1:]
    return summed("ExecuTorch's event tracer", _executorch_events(runs), calls, wall)


def _executorch_events(runs: Iterable[Any]) -> list[Event]:
    """Return the kernels, the delegates' own events, and of each call the time around them.

    Delegates measure in microseconds, ExecuTorch in nanoseconds, all written in nanoseconds.
    """
    found: list[Event] = []
    for event in (event.profile_event for run in runs for event in run.events or () if event.profile_event):
        seconds = (event.end_time - event.start_time) / 1e9
        if event.delegate_debug_id_str:
            found += [(event.delegate_debug_id_str.partition(" #")[0], (), seconds), (_AROUND, (), -seconds)]
        elif (event.name or "").startswith("native_call_"):
            found += [(event.name, (), seconds), (_AROUND, (), -seconds)]
        elif event.name in ("DELEGATE_CALL", "OPERATOR_CALL"):
            found.append((_AROUND, (), seconds))
    return found


def _tvm(program: TvmProgram, inputs: Arrays, calls: int) -> Profile:
    begun: list[float] = []
    events: list[Event] = []

    def watch(_function: Any, name: str, before: bool, _result: Any, *arguments: Any) -> None:
        if before:
            begun.append(time.perf_counter())
        else:
            seconds = time.perf_counter() - begun.pop()
            shape = getattr(arguments[1], "shape", ()) if len(arguments) > 1 else ()
            events.append((name, tuple(int(size) for size in shape), seconds))

    program.run(inputs)
    program.machine.set_instrument(watch)
    try:
        wall = _timed(lambda: program.run(inputs), calls)
    finally:
        program.machine.set_instrument(lambda *_arguments: None)
    return summed("TVM's virtual machine, call by call", events, calls, wall)


_PROFILERS: tuple[tuple[type, Callable[..., Profile]], ...] = (
    (OnnxProgram, _onnx),
    (ExecutorchProgram, _executorch),
    (TvmProgram, _tvm),
)
