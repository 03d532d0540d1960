"""A delegate of XNNPACK as one operator: the graph of its payload, computed at one go."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

from kokoro_nb.inspection.formats.xnnpack_graph import XnnGraph

DRAWS = 4  # of integers moved by one
SHARE = 1e-5  # of the peak: rounding in float32 beside that of integers


@dataclass(frozen=True, eq=False)
class XnnDelegate:
    """An XNNPACK delegate.

    Attributes
    ----------
    graph : XnnGraph
        What it computes.
    sizes : tuple
        The shape of each argument of its call.
    """

    graph: XnnGraph
    sizes: tuple[tuple[int, ...] | None, ...]
    name: ClassVar[str] = "XnnpackBackend"
    is_view: ClassVar[bool] = False

    @classmethod
    def read(cls, payload: bytes, named: Mapping[str, bytes], sizes: Sequence[tuple[int, ...] | None]) -> "XnnDelegate":
        """Read it from its payload and the data that it finds by name.

        Raises
        ------
        ValueError
            If it is damaged, does not fit its call, or holds something that is not known here.
        """
        found = cls(XnnGraph.read(payload, named), tuple(sizes))
        places = (*found.reads, *found.gives)
        if not found.gives or any(k >= len(sizes) or sizes[k] is None for k in places):
            raise ValueError("its graph has other inputs or outputs than its call")
        return found

    @cached_property
    def reads(self) -> tuple[int, ...]:
        """Which arguments of the call it reads."""
        return tuple(sorted(one.external for one in self.graph.inputs if one.external is not None))

    @cached_property
    def gives(self) -> tuple[int, ...]:
        """Which it writes."""
        return tuple(sorted(one.external for one in self.graph.outputs if one.external is not None))

    def __str__(self) -> str:
        return self.name

    def __call__(self, **named: Any) -> tuple[Any, ...]:
        """Compute it; results are of the type of the widest float among its arguments."""
        return self.run(named)

    def run(
        self, named: Mapping[str, Any], observe: Callable[[int, Any], object] = lambda *_: None, move: Any = None
    ) -> tuple[Any, ...]:
        """Compute it, and have `observe` get each value inside, by its id; see `XnnGraph.run`."""
        import torch

        given = {k: named[f"input_{k}"] for k in self.reads}
        double = any(one.dtype == torch.float64 for one in given.values())
        with torch.no_grad():
            found = self.graph.run(given, torch.float64 if double else torch.float32, observe, move)
        return tuple(found[k].reshape(self.sizes[k]) for k in self.gives)

    def explained(self, named: Mapping[str, Any], results: tuple[Any, ...]) -> tuple[Any, ...] | None:
        """Return what rounding may do to each result of a quantised delegate; None of another, where it is measured.

        XNNPACK's integer kernels may round to the neighbour: each integer on the way is moved by up to one at random,
        and what that does at most to a channel is allowed to all of it.
        """
        if not self.graph.is_quantised:
            return None
        import torch

        generator = torch.Generator().manual_seed(0)

        def move(shape: Any) -> Any:
            return torch.randint(-1, 2, tuple(shape), generator=generator)

        apart = [torch.zeros_like(one) for one in results]
        for _ in range(DRAWS):
            moved = self.run(named, move=move)
            apart = [torch.maximum(one, (a - b).abs()) for one, a, b in zip(apart, moved, results, strict=True)]
        return tuple(
            one.amax().expand(one.shape) + SHARE * right.abs().amax() for one, right in zip(apart, results, strict=True)
        )
