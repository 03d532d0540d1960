"""The floor of a program's time: the work in its operators one after the other, and what this machine does at best."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np

from kokoro_nb.backends.exported import tensors_in
from kokoro_nb.benchmarks.interleaved import Call, in_turn, spread
from kokoro_nb.torch_private import schema, storage

CONV, STFT, LSTM, MATMUL, NORM, ELEMENTWISE, LAYOUT, OTHER = (
    *("convolution", "STFT", "LSTM", "matrix product"),
    *("means and norms", "elementwise", "layout and copies", "other"),
)
FAMILIES = (CONV, STFT, LSTM, MATMUL, NORM, ELEMENTWISE, LAYOUT, OTHER)

# A function that joins several operators belongs to the first of these families that one of its words names.
_WORDS: Mapping[str, str] = {
    CONV: "conv convolution deconvolution fusedconv igemm dwconv",
    STFT: "stft istft fft unfold",
    LSTM: "lstm rnn gru",
    MATMUL: "matmul mm addmm bmm baddbmm linear gemm fusedgemm fusedmatmul fully dense",
    NORM: "mean var variance sum norm instancenorm batchnorm normalization rsqrt reduce",
    ELEMENTWISE: (
        "add sub subtract mul multiply div divide neg negate negative abs pow power square sqrt "
        "reciprocal exp log sin cos sine cosine tanh atan sigmoid relu leakyrelu leaky gelu prelu clamp "
        "clip floor remainder mod where eq equal lt less gt greater le ge not and or fill maximum minimum "
        "max min elementwise binary unary vmulcaddc isnan sign logical softmax cumsum erf biasgelu "
        "quickgelu softplus round"
    ),
    LAYOUT: (
        "copy clone contiguous view select reshape transpose permute cat concat concatenate split chunk "
        "slice narrow expand tile repeat pad constant unsqueeze squeeze flatten cast convert resize "
        "upsample nearest interpolate gather take index as strided t empty alloc allocate reorder layout "
        "dim order identity flip stack resolve lift detach to zeros ones full"
    ),
}


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
    return STFT if found == CONV and is_stft(kernel) else found


def is_stft(kernel: Sequence[int]) -> bool:
    """Return whether a convolution's kernel is that of an STFT, (bins, 1, 2 * (bins - 1)) with any ones between."""
    if len(kernel) < 3:
        return False
    bins, *between, samples = kernel
    return samples == 2 * (bins - 1) and all(size == 1 for size in between)


def shares(seconds: Mapping[str, float]) -> dict[str, float]:
    """Return the share of each family in the sum, largest first; nothing for no time at all.

    >>> shares({"convolution": 3.0, "other": 1.0})
    {'convolution': 0.75, 'other': 0.25}
    """
    total = sum(seconds.values())
    ordered = sorted(seconds.items(), key=lambda item: -item[1])
    return {name: each / total for name, each in ordered} if total else {}


SIZES = (256, 512, 1024, 1536)  # of square matrices: the smallest fit a core's own cache, the largest do not
COPIED = 128  # MB, some times the largest last-level cache that is common


@dataclass(frozen=True)
class Ceilings:
    """The two roofs of a roofline (Williams, Waterman and Patterson 2009, "Roofline").

    Attributes
    ----------
    gflops : float
        10⁹ operations of float32 per second in a matrix product, an addition and a multiplication each counted: the
        best of the sizes, by their medians.
    gbytes : float
        10⁹ bytes per second in a copy, those read and those written both counted.
    threads : int
        That it was measured with.
    """

    gflops: float
    gbytes: float
    threads: int

    def seconds(self, flops: float, moved: float) -> float:
        """Return the time that no program can beat: of the two, whichever takes longer."""
        return float(np.maximum(flops / (1e9 * self.gflops), moved / (1e9 * self.gbytes)))


def in_turn_with_ceilings(
    calls: Mapping[str, Call], rounds: int, limit: float
) -> tuple[dict[str, tuple[float, ...]], Ceilings]:
    """Time `calls` in turn, see `interleaved.in_turn`; return their times, and PyTorch's roofs in the same rounds.

    Timed in turn with the programs, the roofs are those of the machine as it was meanwhile.
    """
    import torch

    source = torch.zeros(COPIED * 250_000)
    target = torch.empty_like(source)
    squares = {size: torch.ones(size, size) for size in SIZES}
    own: dict[str, Call] = {
        f"product of {size}": partial(torch.mm, one, one, out=torch.empty_like(one)) for size, one in squares.items()
    }
    times = in_turn({**calls, **own, "copy": partial(target.copy_, source)}, rounds, limit)
    gflops = [2 * size**3 / spread(times[f"product of {size}"]).median / 1e9 for size in SIZES]
    gbytes = 2 * COPIED / 1e3 / spread(times["copy"]).median
    roofs = Ceilings(float(np.max(gflops)), gbytes, torch.get_num_threads())
    return {name: times[name] for name in calls}, roofs


@dataclass(frozen=True)
class Operation:
    """One operator that computes something.

    Attributes
    ----------
    family : str
        One of `FAMILIES`.
    flops : int
        Additions and multiplications of convolutions, matrix products and LSTMs; 0 for all others.
    moved : int
        Bytes of what it reads and writes, each tensor once.
    """

    family: str
    flops: int
    moved: int


@dataclass(frozen=True)
class Work:
    """What a program has to do.

    Attributes
    ----------
    operations : tuple of Operation
        In the order of execution; views are none.
    weights : int
        Bytes of the parameters, buffers and constants that are read, each once.
    given : int
        Bytes of the inputs and outputs.
    """

    operations: tuple[Operation, ...]
    weights: int
    given: int

    @cached_property
    def flops(self) -> int:
        """Operations of all together."""
        return sum(each.flops for each in self.operations)

    @property
    def least(self) -> int:
        """Bytes that have to pass even where no operator's result leaves the caches: weights, inputs, outputs."""
        return self.weights + self.given

    @cached_property
    def moved(self) -> int:
        """Bytes that pass where every operator reads and writes memory by itself."""
        return sum(each.moved for each in self.operations)

    def families(self) -> list[dict[str, Any]]:
        """Return the rows of a table: number, operations and bytes of each family that there is."""
        rows = []
        for name in FAMILIES:
            some = [each for each in self.operations if each.family == name]
            if some:
                sums = {"flops": sum(each.flops for each in some), "bytes": sum(each.moved for each in some)}
                rows.append({"family": name, "operators": len(some), **sums})
        return rows

    def floor(self, ceilings: Ceilings) -> float:
        """Return the seconds that no program beats which computes these sums as they are written.

        An algorithm with fewer operations, Winograd's or a fast Fourier transform, could.
        """
        return ceilings.seconds(self.flops, self.least)

    def separate_floor(self, ceilings: Ceilings) -> float:
        """Return the seconds of the same operators one after the other, each against its own roof.

        It is the floor of what joins no operators; what joins them may lie below, and what fits the caches too.
        """
        return sum(ceilings.seconds(each.flops, each.moved) for each in self.operations)


def count(module: Any, inputs: Mapping[str, Any]) -> Work:
    """Count what `module` does in one call, without computing anything.

    Parameters
    ----------
    module : torch.nn.Module
        What is counted is what it does in inference mode, patches that are on included.
    inputs : mapping
        Name of a parameter of its forward -> tensor.
    """
    import torch
    from torch._subclasses.fake_tensor import FakeTensorMode

    operations: list[Operation] = []
    weights: dict[int, int] = {}
    made: set[int] = set()  # storages of inputs and results; what is read and not among them is a weight
    alive: list[Any] = []  # a storage's number may be given again as soon as it is let go

    class Counting(torch.utils._python_dispatch.TorchDispatchMode):
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            kwargs = kwargs or {}
            result = func(*args, **kwargs)
            read, written = _distinct(tensors_in((args, kwargs))), _distinct(tensors_in(result))
            alive.extend((*read.values(), *written.values()))
            weights.update({at: _bytes(tensor) for at, tensor in read.items() if at not in made})
            if schema(func).is_mutable or not written.keys() <= read.keys():  # the rest are views
                made.update(written)
                moved = sum(map(_bytes, (*read.values(), *written.values())))
                kind = family(str(func), _kernel(args))
                operations.append(Operation(kind, _flops(func, args, kwargs, result), moved))
            return result

    # tensors without data: nothing is computed, and nothing of it takes room
    with FakeTensorMode(allow_non_fake_inputs=True) as mode, torch.no_grad():
        stand_ins = {name: mode.from_tensor(tensor) for name, tensor in inputs.items()}
        made.update(map(storage, stand_ins.values()))
        with Counting():
            results = module(**stand_ins)
    ends = sum(map(_bytes, (*stand_ins.values(), *tensors_in(results))))
    return Work(tuple(operations), sum(weights.values()), ends)


def _kernel(args: Any) -> tuple[int, ...]:
    """Return the shape of the second argument, which of a convolution is the kernel."""
    return tuple(getattr(args[1], "shape", ())) if len(args) > 1 else ()


def _flops(func: Any, args: Any, kwargs: Any, result: Any) -> int:
    """Count by PyTorch's own formulas, and that of an LSTM, which it does not have."""
    from torch.utils.flop_counter import flop_registry

    packet = func.overloadpacket
    if str(packet) == "aten.mkldnn_rnn_layer":  # one direction: its input and its state by two matrices a step
        x, into, again = args[:3]
        return int(2 * x.shape[0] * x.shape[1] * (into.numel() + again.numel()))
    return int(flop_registry[packet](*args, **kwargs, out_val=result)) if packet in flop_registry else 0


def _distinct(values: Any) -> dict[int, Any]:
    """Return the tensors among `values` by their storage, the largest of each."""
    found: dict[int, Any] = {}
    for tensor in tensors_in(values):
        at = storage(tensor)
        if at not in found or _bytes(tensor) > _bytes(found[at]):
            found[at] = tensor
    return found


def _bytes(tensor: Any) -> int:
    """Return how much memory a tensor reads: where it repeats its elements, each once."""
    return min(tensor.numel() * tensor.element_size(), tensor.untyped_storage().nbytes())
