"""What exporters leave in memory: weights that they never read again, and pages that the C library keeps."""

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager, suppress


@contextmanager
def release_lowered() -> Iterator[None]:
    """Let go of the programs that ExecuTorch has lowered in the block.

    Two caches, which live as long as the process, have programs with their weights in their keys: ExecuTorch's of which
    nodes are the same, and PyTorch's of results by the arguments of a call, where the first is a delegate.
    """
    from executorch.exir.backend.utils import is_same_node
    from torch._subclasses.fake_tensor import FakeTensorMode

    try:
        yield
    finally:
        is_same_node.cache_clear()
        FakeTensorMode.cache_clear()


@contextmanager
def release_matched() -> Iterator[None]:
    """Let go of the model that onnxscript has rewritten in the block.

    Each of its rules, which live as long as the process, keeps where it has looked last; at the end of the block that
    is a model of one node.
    """
    from onnxscript import ir
    from onnxscript.rewriter import rewrite

    try:
        yield
    finally:
        given = ir.Value(name="given")
        node = ir.Node("", "Identity", [given])
        graph = ir.Graph([given], node.outputs, nodes=[node], opset_imports={"": 18})
        rewrite(ir.Model(graph, ir_version=10))


def give_back_memory() -> None:
    """Give what this process has freed back to the system, which glibc does not do by itself.

    After an export of 54 million parameters it is 0.7 to 1 GB.
    """
    with suppress(OSError, AttributeError):  # another C library
        ctypes.CDLL("libc.so.6").malloc_trim(0)


def forget_last_trace() -> None:
    """Let go of the nodes of the last trace, and so of its weights: PyTorch notes them in case an export goes wrong."""
    from torch.fx.experimental import proxy_tensor

    proxy_tensor._FAKE_TENSOR_ID_TO_PROXY_MAP_FOR_EXPORT.clear()
