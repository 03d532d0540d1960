"""The partition map of ExecuTorch: which operators of a graph a delegate takes, which it leaves, and why.

An operator that is left runs in ExecuTorch's portable kernels, between two pieces of the delegate: slow, and another
piece of code to trust. The reasons are those of the delegate's own partitioner.
"""

import logging
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from operator import getitem
from typing import Any

from kokoro_nb.backends.base import on_rung, quietly
from kokoro_nb.backends.called_operators import calling_module
from kokoro_nb.backends.executorch import Executorch
from kokoro_nb.backends.executorch.edge import edge_program
from kokoro_nb.backends.exported import Exported
from kokoro_nb.errors import InputError

UNKNOWN = "unknown"
_LOG = "executorch.backends.xnnpack.partition.config"


@dataclass(frozen=True)
class Placement:
    """Where one operator of the Edge graph runs.

    Attributes
    ----------
    name, operator : str
        The node, and what it calls: ``aten.convolution.default``.
    module : str
        Path of the module that it comes from; empty for the outermost.
    delegate : int or None
        Number of the delegated piece that it is in, counted from 0 in the order of the graph; None if it is in none.
    reason : str
        Why it is in none, in the partitioner's words where it has any; else ``unknown``.
    """

    name: str
    operator: str
    module: str
    delegate: int | None
    reason: str = ""


@dataclass(frozen=True)
class Share:
    """How many nodes that call one operator are delegated, how many are left, and why, most frequent reason first."""

    operator: str
    delegated: int
    left: int
    reasons: tuple[str, ...]


def partition_map(backend: Executorch, exported: Exported) -> tuple[Placement, ...]:
    """Say for every operator of the Edge graph where it runs.

    Nothing is compiled: the graph is prepared as for the delegate, and its partitioner consulted. A node that merely
    picks one of an operator's several results is no operator, and has no row.

    Parameters
    ----------
    backend : Executorch
        One that has a delegate.
    exported : Exported
        What `exported.export_program` made of a module.

    Raises
    ------
    InputError
        If the backend has no delegate.
    RungError
        If the graph cannot be prepared.
    """
    if not isinstance(backend, Executorch) or backend.delegate is None:
        raise InputError(f"{backend.name} has no delegate, so there is nothing to map; take executorch-xnnpack.")
    reason_of = _REASONS[backend.delegate]
    found: list[Placement] = []

    def look(partitioner: Any, program: Any) -> None:
        partitioner.partition(program)
        nodes = [node for node in program.graph.nodes if node.op == "call_function" and node.target is not getitem]
        tags = list(dict.fromkeys(node.meta["delegation_tag"] for node in nodes if "delegation_tag" in node.meta))
        for node in nodes:
            tag = node.meta.get("delegation_tag")
            number = None if tag is None else tags.index(tag)
            reason = reason_of(partitioner, program, node) if tag is None else ""
            found.append(Placement(node.name, _operator(node), calling_module(node), number, reason))

    with on_rung("lowered"), quietly():
        edge_program(exported, backend.partitioner(), look)
    return tuple(found)


def shares(placements: Sequence[Placement]) -> tuple[Share, ...]:
    """Count `placements` by operator, those of which most are left first."""
    rows = []
    for operator in dict.fromkeys(placement.operator for placement in placements):
        nodes = [placement for placement in placements if placement.operator == operator]
        reasons = Counter(node.reason for node in nodes if node.delegate is None)
        left = reasons.total()
        rows.append(Share(operator, len(nodes) - left, left, tuple(reason for reason, _ in reasons.most_common())))
    return tuple(sorted(rows, key=lambda row: (-row.left, -row.delegated)))


def pieces(placements: Sequence[Placement]) -> int:
    """Return the number of delegated pieces: each is a call out of ExecuTorch's interpreter and back."""
    return len({placement.delegate for placement in placements} - {None})


def _operator(node: Any) -> str:
    """Name what a node calls, without the name of the dialect."""
    return getattr(node.target, "__name__", str(node.target))


def _xnnpack(partitioner: Any, program: Any, node: Any) -> str:
    from executorch.exir.backend.canonical_partitioners.config_partitioner import format_target_name

    config = partitioner.target_partitioner_configs.get(format_target_name(node.target.__name__))
    if config is None:
        return "XNNPACK's partitioner has no entry for the operator"
    with _complaints() as words:
        fits = config.check_constraints(node, program)
    return UNKNOWN if fits or not words else words[0]


@contextmanager
def _complaints() -> Iterator[list[str]]:
    """Collect the reasons that XNNPACK's configurations write into a log."""
    words: list[str] = []

    class Collecting(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            words.append(getattr(record.msg, "reason", str(record.msg)))

    log, disabled, handler = logging.getLogger(_LOG), logging.root.manager.disable, Collecting()
    level, propagates = log.level, log.propagate
    log.addHandler(handler)
    log.setLevel(logging.DEBUG)
    log.propagate = False
    logging.disable(logging.NOTSET)
    try:
        yield words
    finally:
        logging.disable(disabled)
        log.removeHandler(handler)
        log.setLevel(level)
        log.propagate = propagates


def _coreml(partitioner: Any, program: Any, node: Any) -> str:
    from executorch.backends.apple.coreml.partition import coreml_partitioner

    support = coreml_partitioner._OperatorsSupportedForCoreMLBackend()
    words: list[str] = []
    support.log_once = words.append
    fits = support.is_node_supported({}, node)
    return UNKNOWN if fits or not words else words[0]


def _vulkan(partitioner: Any, program: Any, node: Any) -> str:
    from executorch.backends.vulkan import utils
    from executorch.backends.vulkan.partitioner.vulkan_partitioner import VulkanSupportedOperators

    support = VulkanSupportedOperators(utils.DEFAULT_TEXTURE_LIMITS, utils.DEFAULT_BUFFER_LIMIT)
    words: list[str] = []
    support.log_skip = lambda node, reason: words.append(reason)
    fits = support.is_node_supported({}, node)
    return UNKNOWN if fits or not words else words[0]


_REASONS = {"xnnpack": _xnnpack, "coreml": _coreml, "vulkan": _vulkan}
