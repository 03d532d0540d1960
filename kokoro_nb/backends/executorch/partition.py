"""The partition map of ExecuTorch: which operators of a graph a delegate takes, which it leaves, and why.

An operator that is left runs in ExecuTorch's portable kernels, between two pieces of the delegate: slow, and another
piece of code to trust. The reasons are those of the delegate's own partitioner.
"""

import logging
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from operator import getitem
from typing import Any

from kokoro_nb.backends.base import on_rung, quietly
from kokoro_nb.backends.called_operators import calling_module
from kokoro_nb.backends.executorch import Executorch, lowered_to_edge
from kokoro_nb.backends.executorch.executorch_private import of_executorch
from kokoro_nb.backends.exported import Exported
from kokoro_nb.backends.specification import Specification
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
    fitting = _FITTING[backend.delegate]
    found: list[Placement] = []

    def look(partitioner: Any, program: Any) -> None:
        partitioner.partition(program)
        nodes = [node for node in program.graph.nodes if node.op == "call_function" and node.target is not getitem]
        tags = list(dict.fromkeys(node.meta["delegation_tag"] for node in nodes if "delegation_tag" in node.meta))
        for node in nodes:
            tag = node.meta.get("delegation_tag")
            number = None if tag is None else tags.index(tag)
            reason, words = "", list[str]()
            if tag is None:
                try:
                    fits = fitting(partitioner, program, node, words)
                    reason = UNKNOWN if fits or not words else words[0]
                except InputError as lost:  # this version does not say
                    reason = str(lost)
            operator = getattr(node.target, "__name__", str(node.target))  # without the name of the dialect
            found.append(Placement(node.name, operator, calling_module(node), number, reason))

    with on_rung("lowered"), quietly():
        lowered_to_edge(exported, _watching(backend.partitioner(exported), look))
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


def _xnnpack(partitioner: Any, program: Any, node: Any, words: list[str]) -> bool:
    config = partitioner.target_partitioner_configs.get(of_executorch("format_target_name")(node.target.__name__))
    if config is None:
        words.append("XNNPACK's partitioner has no entry for the operator")
        return False
    with _complaints(words):
        return bool(config.check_constraints(node, program))


@contextmanager
def _complaints(words: list[str]) -> Iterator[None]:
    """Collect the reasons that XNNPACK's configurations write into a log."""

    def collect(record: logging.LogRecord) -> bool:
        words.append(getattr(record.msg, "reason", str(record.msg)))
        return False  # so that it is not shown

    log, disabled = logging.getLogger(_LOG), logging.root.manager.disable
    level = log.level
    log.addFilter(collect)
    log.setLevel(logging.DEBUG)
    logging.disable(logging.NOTSET)
    try:
        yield
    finally:
        logging.disable(disabled)
        log.removeFilter(collect)
        log.setLevel(level)


def _coreml(partitioner: Any, program: Any, node: Any, words: list[str]) -> bool:
    support = of_executorch("_OperatorsSupportedForCoreMLBackend")()
    support.log_once = words.append
    return bool(support.is_node_supported({}, node))


def _vulkan(partitioner: Any, program: Any, node: Any, words: list[str]) -> bool:
    utils = of_executorch("utils")
    support = of_executorch("VulkanSupportedOperators")(utils.DEFAULT_TEXTURE_LIMITS, utils.DEFAULT_BUFFER_LIMIT)
    support.log_skip = lambda node, reason: words.append(reason)
    return bool(support.is_node_supported({}, node))


# each says whether a node fits a delegate, and adds the words in which the partitioner says why not
_FITTING = {"xnnpack": _xnnpack, "coreml": _coreml, "vulkan": _vulkan}


def _watching(partitioner: Any, look: Callable[[Any, Any], None]) -> Any:
    """Return a partitioner that prepares the graph as `partitioner` does, and takes nothing.

    In its turn `look` is called with `partitioner` and the program, whose tensors hold no data then.
    """
    from executorch.exir.backend.partitioner import Partitioner, PartitionResult

    class Watching(Partitioner):
        done = False

        def ops_to_not_decompose(self, ep: Any) -> Any:
            kept, fits = partitioner.ops_to_not_decompose(ep)
            # asked again afterwards, to complain of what was kept and not delegated: that is all of it here
            return (kept, lambda node: False) if self.done else (kept, fits)

        def transform_for_pre_decomposition(self, exported_program: Any) -> Any:
            return partitioner.transform_for_pre_decomposition(exported_program)

        def partition(self, exported_program: Any) -> Any:
            self.done = True
            look(partitioner, exported_program)
            for node in exported_program.graph.nodes:
                node.meta.pop("delegation_tag", None)
            return PartitionResult(tagged_exported_program=exported_program, partition_tags={})

    return Watching()


@dataclass(frozen=True)
class Withholding(Executorch):
    """ExecuTorch with XNNPACK, but for some operators."""

    withheld: tuple[str, ...] = ()  # names of the operators that XNNPACK does not get

    def __post_init__(self) -> None:
        if self.delegate != "xnnpack":
            raise InputError(f"From '{self.delegate}' nothing can be withheld here; take the delegate 'xnnpack'.")

    def options(self) -> dict[str, Any]:
        """Return the delegate, and what is withheld."""
        return {**super().options(), "withheld": sorted(self.withheld)}

    def partitioner(self, exported: Exported) -> Any:
        """Return a partitioner that refuses whatever was made of a withheld operator.

        It says so to the decomposition too, so that an operator that XNNPACK would have had whole (linear, say) is
        taken apart into what the other kernels have.
        """
        partitioner: Any = super().partitioner(exported)
        for config in partitioner.target_partitioner_configs.values():
            config.check_constraints = _refusing(config.check_constraints, exported.specification, set(self.withheld))
        return partitioner


def _refusing(check: Any, specification: Specification, withheld: set[str]) -> Any:
    def fits(node: Any, program: Any) -> bool:
        return specification.source_of(node) not in withheld and check(node, program)

    return fits
