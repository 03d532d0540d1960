"""Where the time goes, by family of operators, by each runtime's own profiler."""

import json
import re
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import singledispatch
from pathlib import Path
from typing import Any

from kokoro_nb.backends.base import quietly
from kokoro_nb.backends.eager import EagerProgram
from kokoro_nb.backends.executorch import ExecutorchProgram
from kokoro_nb.backends.executorch.executorch_private import of_executorch
from kokoro_nb.backends.onnx import OnnxProgram
from kokoro_nb.backends.signature import Arrays, checked
from kokoro_nb.backends.tvm import TvmProgram
from kokoro_nb.benchmarks.interleaved import timed

CONV, STFT, OTHER = "convolution", "STFT", "other"
# A function that joins several operators belongs to the first of these families that one of its words names.
_WORDS: Mapping[str, str] = {
    CONV: "conv convolution deconvolution fusedconv igemm dwconv",
    STFT: "stft istft fft unfold",
    "LSTM": "lstm rnn gru",
    "matrix product": "matmul mm addmm bmm baddbmm linear gemm fusedgemm fusedmatmul fully dense",
    "means and norms": "mean var variance sum norm instancenorm batchnorm normalization rsqrt reduce",
    "elementwise": (
        "add sub subtract mul multiply div divide neg negate negative abs pow power square sqrt reciprocal exp log "
        "sin cos sine cosine tanh atan sigmoid relu leakyrelu leaky gelu prelu clamp clip floor remainder mod where "
        "eq equal lt less gt greater le ge not and or fill maximum minimum max min elementwise binary unary "
        "vmulcaddc isnan sign logical softmax cumsum erf biasgelu quickgelu softplus round"
    ),
    "layout and copies": (
        "copy clone contiguous view select reshape transpose permute cat concat concatenate split chunk slice "
        "narrow expand tile repeat pad constant unsqueeze squeeze flatten cast convert resize upsample nearest "
        "interpolate gather take index as strided t empty alloc allocate reorder layout dim order identity flip "
        "stack resolve lift detach to zeros ones full"
    ),
}
FAMILIES = (*_WORDS, OTHER)


def family(name: str, kernel: Sequence[int] = ()) -> str:
    """Return the family of an operator.

    Parameters
    ----------
    name : str
        As a runtime calls it; of several joined ones, all their names.
    kernel : sequence of int
        Shape of its kernel, if it is a convolution and the runtime reports it: that of an STFT has one input channel,
        and for n samples n / 2 + 1 bins.

    Examples
    --------
    >>> family("aten::mkldnn_convolution"), family("MatMul"), family("fused_subtract1_multiply2_mean")
    ('convolution', 'matrix product', 'means and norms')
    >>> family("Conv", (11, 1, 20)), family("Conv", (128, 1, 3)), family("native_call_native_dropout.out")
    ('STFT', 'convolution', 'other')
    """
    # ConvTranspose is also Conv and Transpose; MatMul is one word too
    words = {word.lower() for form in ("[A-Za-z]+", "[A-Z]?[a-z]+|[A-Z]+") for word in re.findall(form, name)}
    found = next((each for each, known in _WORDS.items() if words & {*known.split()}), OTHER)
    if found != CONV or len(kernel) < 3:
        return found
    bins, *between, samples = kernel
    return STFT if samples == 2 * (bins - 1) and all(size == 1 for size in between) else CONV


def shares(seconds: Mapping[str, float]) -> dict[str, float]:
    """Return the share of each family in the sum, largest first; nothing for no time at all.

    >>> shares({"convolution": 3.0, "other": 1.0})
    {'convolution': 0.75, 'other': 0.25}
    """
    total = sum(seconds.values())
    ordered = sorted(seconds.items(), key=lambda item: -item[1])
    return {name: each / total for name, each in ordered} if total else {}


Event = tuple[str, tuple[int, ...], float]  # name of an operator, shape of its kernel if it is known, seconds
_AROUND = "around the calls"
CALLS = 3


@dataclass(frozen=True)
class Profile:
    """Where one program's time went.

    Attributes
    ----------
    seconds : dict
        Family -> seconds of a call.
    wall : float
        Seconds of a call from outside, while it was profiled.
    """

    seconds: Mapping[str, float]
    wall: float

    @property
    def total(self) -> float:
        """Seconds of a call in all operators."""
        return sum(self.seconds.values())

    def as_dict(self) -> dict[str, float]:
        """Return the columns of a table: the share of the call accounted for, and each family's share of that."""
        percent = {f"{kind} (%)": 100 * share for kind, share in shares(self.seconds).items()}
        return {"accounted for": self.total / self.wall, **percent}


@singledispatch
def profile(program: Any, _inputs: Arrays) -> Profile | str:
    """Profile a loaded program by its runtime's own profiler, on average over `CALLS` calls after a first one.

    An STFT made of convolutions is recognised by its kernel's shape, which ONNX Runtime packs away and ExecuTorch does
    not report: there it is among the convolutions.

    Parameters
    ----------
    program : Program
        From `Backend.load`.
    inputs : mapping
        As for its `run`.

    Returns
    -------
    Profile or str
        The reason where the runtime has no profiler.
    """
    return f"{program.artifact.backend} does not report times of operators."


def profiles(programs: Mapping[str, Any], inputs: Arrays) -> tuple[dict[str, Profile], dict[str, str]]:
    """Return the profile of each program by name, and why there is none of the others."""
    found = {name: profile(program, inputs) for name, program in programs.items()}
    known = {name: one for name, one in found.items() if isinstance(one, Profile)}
    return known, {name: one for name, one in found.items() if isinstance(one, str)}


def summed(events: Iterable[Event], wall: float, calls: int = CALLS) -> Profile:
    """Add up the events of some calls, which took `wall` seconds together, by family."""
    found: dict[str, float] = {}
    for name, kernel, seconds in events:
        kind = family(name, kernel)
        found[kind] = found.get(kind, 0.0) + seconds / calls
    return Profile({kind: found[kind] for kind in FAMILIES if kind in found}, wall / calls)


def _timed(call: Callable[[], Any]) -> float:
    return timed(lambda: [call() for _ in range(CALLS)])[1]


def _kernel(shapes: Sequence[Any]) -> tuple[int, ...]:
    """Return the second of the inputs' shapes, which of a convolution is the kernel's."""
    return tuple(shapes[1]) if len(shapes) > 1 and isinstance(shapes[1], list | tuple) else ()


@profile.register
def _eager(program: EagerProgram, inputs: Arrays) -> Profile:
    from torch.profiler import ProfilerActivity
    from torch.profiler import profile as watch

    program.run(inputs)
    with quietly(), watch(activities=[ProfilerActivity.CPU], record_shapes=True) as seen:
        wall = _timed(lambda: program.run(inputs))
    # of operators that call each other, each without those that it calls
    events = ((each.name, _kernel(each.input_shapes), each.self_cpu_time_total / 1e6) for each in seen.events())
    return summed(events, wall)


@profile.register
def _onnx(program: OnnxProgram, inputs: Arrays) -> Profile:
    import onnxruntime

    arrays = checked(inputs, program.artifact.inputs)
    with tempfile.TemporaryDirectory() as room, quietly():
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = program.session.get_session_options().intra_op_num_threads
        options.enable_profiling = True
        options.profile_file_prefix = str(Path(room) / "profile")
        session = onnxruntime.InferenceSession(str(program.artifact.path), options, providers=["CPUExecutionProvider"])
        fed = dict(zip((node.name for node in session.get_inputs()), arrays.values(), strict=True))
        session.run(None, fed)
        wall = _timed(lambda: session.run(None, fed))
        output = json.loads(Path(session.end_profiling()).read_text(encoding="utf-8"))
    return summed(_onnx_events(output), wall)


def _onnx_events(output: list[Mapping[str, Any]]) -> list[Event]:
    """Return the operators of all runs but the first."""
    first = min(each["ts"] + each["dur"] for each in output if each["name"] == "model_run")
    return [
        (
            each["args"]["op_name"],
            _kernel([next(iter(one.values()), ()) for one in each["args"].get("input_type_shape", [])]),
            each["dur"] / 1e6,
        )
        for each in output
        if each.get("cat") == "Node" and each["name"].endswith("_kernel_time") and each["ts"] > first
    ]


@profile.register
def _executorch(program: ExecutorchProgram, inputs: Arrays) -> Profile:
    import torch

    tensors = [torch.tensor(array) for array in checked(inputs, program.artifact.inputs).values()]
    with tempfile.TemporaryDirectory() as room, quietly():
        module = of_executorch("_load_for_executorch")(str(program.artifact.path), enable_etdump=True)
        module.run_method("forward", tensors)
        wall = _timed(lambda: module.run_method("forward", tensors))
        path = Path(room) / "events.etdump"
        module.write_etdump_result_to_file(str(path))
        output = of_executorch("deserialize_from_etdump_flatcc")(path.read_bytes()).run_data
    runs = [run for run in output if run.name == "Execute"][1:]
    return summed(_executorch_events(runs), wall)


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


@profile.register
def _tvm(program: TvmProgram, inputs: Arrays) -> Profile:
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
        wall = _timed(lambda: program.run(inputs))
    finally:
        program.machine.set_instrument(lambda *_arguments: None)
    return summed(events, wall)
