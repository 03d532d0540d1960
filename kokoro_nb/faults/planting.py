"""Faults at one operator of an exported program: the place of one, the kinds, and how faults are planted and drawn."""

import copy
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from itertools import zip_longest
from random import Random
from typing import Any, NamedTuple

import torch
from torch.fx.node import map_arg
from torch.fx.traceback import NodeSource, NodeSourceAction

from kokoro_nb.backends.base import quietly
from kokoro_nb.backends.called_operators import arguments_by_name, is_element
from kokoro_nb.backends.exported import Exported
from kokoro_nb.backends.specification import Specification
from kokoro_nb.errors import InputError
from kokoro_nb.torch_private import schema
from kokoro_nb.traces.trace import INPUT, with_readers


class FaultSite:
    """One operator of an exported program without writes in place.

    What is put into the graph carries the provenance of the operator that it falsifies, so that the last node that any
    backend makes of that operator holds the false result.

    Parameters
    ----------
    program : torch.export.ExportedProgram
        The program; a copy, if anything is to be changed.
    node : torch.fx.Node
        Holds the result of the operator in it.
    seed : str
        Decides what a kind of fault leaves open: which channel, which element.

    Attributes
    ----------
    made : list of torch.fx.Node
        What was added.
    """

    def __init__(self, program: Any, node: Any, seed: str = ""):
        self.program = program
        self.node = node
        self.random = Random(seed)
        self._last = node
        self.made: list[Any] = []

    @property
    def op(self) -> str:
        """The operator: ``aten.mul.Tensor``; ``getitem`` for one of several results."""
        return "getitem" if is_element(self.node) else str(self.node.target)

    @property
    def value(self) -> Any:
        """Stand-in of the result: its shape and dtype."""
        return self.node.meta["val"]

    @property
    def arguments(self) -> dict[str, Any]:
        """Arguments by the names of the operator's schema, defaults included; none for one of several results."""
        return arguments_by_name(self.node.target, self.node.args, self.node.kwargs)

    def fits(self) -> bool:
        """Return whether the operator, as it is called now, still gives a result of its shape and dtype."""
        result = evaluated(self.node.target, self.node.args, self.node.kwargs)
        return bool(result.shape == self.value.shape and result.dtype == self.value.dtype)

    def emit(self, target: Any, *args: Any, **kwargs: Any) -> Any:
        """Add a node that is made of this operator, after what was added last."""
        with self.node.graph.inserting_after(self._last):
            made = self.node.graph.call_function(target, args, kwargs)
        keys = ("nn_module_stack", "stack_trace", "torch_fn")
        made.meta = {key: self.node.meta[key] for key in keys if key in self.node.meta}
        made.meta["from_node"] = [NodeSource(self.node, "fault", NodeSourceAction.CREATE)]
        made.meta["val"] = evaluated(target, args, kwargs)
        self.made.append(made)
        self._last = made
        return made

    def give(self, result: Any) -> None:
        """Have everybody else read `result` in place of this operator's."""
        self.node.replace_all_uses_with(result, delete_user_cb=lambda user: user not in self.made)
        self.program.graph_signature.replace_all_uses(self.node.name, result.name)

    def call(self, /, **changes: Any) -> None:
        """Change arguments of the operator, by the names of its schema."""
        parameters = schema(self.node.target).arguments
        values = {**self.arguments, **changes}
        positional = [p.name for p in parameters if not p.kwarg_only]
        defaults = {p.name: p.default_value for p in parameters if p.has_default_value()}
        while positional and positional[-1] in defaults and values[positional[-1]] == defaults[positional[-1]]:
            positional.pop()
        self.node.args = tuple(values[name] for name in positional)
        named = [p.name for p in parameters if p.kwarg_only and values[p.name] != p.default_value]
        self.node.kwargs = {name: values[name] for name in named}


def evaluated(target: Any, args: Any, kwargs: Any) -> Any:
    """Return the stand-in of what an operator gives on nodes."""
    values, named = map_arg((tuple(args), dict(kwargs)), lambda node: node.meta["val"])
    with torch.no_grad():
        return target(*values, **named)


ATEN = torch.ops.aten
SMALL = 1e-2  # a number up to here that is added to a tensor is taken for an epsilon


class FaultKind(NamedTuple):
    """One kind of fault.

    Attributes
    ----------
    apply : callable
        Plants it at a `FaultSite`; its name is the kind's, and its docstring says what it does.
    fits : callable
        Returns whether it can be planted at a `FaultSite`.
    """

    apply: Callable[[FaultSite], None]
    fits: Callable[[FaultSite], bool]


def is_float(site: FaultSite) -> bool:
    """Return whether the result is one float tensor of one axis or more, and no one of several."""
    value = site.value
    return not is_element(site.node) and value.is_floating_point() and value.ndim > 0 and value.numel() > 0


def nan_channel(site: FaultSite) -> None:
    """Make one channel NaN: the square root of something below zero."""

    def root(channel: Any) -> Any:
        opposite = site.emit(ATEN.neg.default, site.emit(ATEN.mul.Tensor, channel, channel))
        return site.emit(ATEN.sqrt.default, site.emit(ATEN.sub.Tensor, opposite, 1.0))

    in_channel(site, root)


def zeroed_channel(site: FaultSite) -> None:
    """Make one channel zero."""
    in_channel(site, lambda channel: site.emit(ATEN.mul.Tensor, channel, 0.0))


def in_channel(site: FaultSite, falsified: Callable[[Any], Any]) -> None:
    """Put what `falsified` makes of one channel, which the seed chooses, in its place."""
    axis = min(1, site.value.ndim - 1)
    place = site.random.randrange(site.value.shape[axis])
    channel = site.emit(ATEN.select.int, site.node, axis, place)
    site.give(site.emit(ATEN.select_scatter.default, site.node, falsified(channel), axis, place))


def sign_flip(site: FaultSite) -> None:
    """Change the sign."""
    site.give(site.emit(ATEN.neg.default, site.node))


def scaled(site: FaultSite) -> None:
    """Multiply by 1.01."""
    site.give(site.emit(ATEN.mul.Tensor, site.node, 1.01))


def half_rounding(site: FaultSite) -> None:
    """Round to float16 and back."""
    half = site.emit(ATEN._to_copy.default, site.node, dtype=torch.float16)
    site.give(site.emit(ATEN._to_copy.default, half, dtype=site.value.dtype))


def wrong_epsilon(site: FaultSite) -> None:
    """Multiply the epsilon by 1000."""
    name = "other" if adds_epsilon(site) else "eps"
    site.call(**{name: 1000 * site.arguments[name]})


def adds_epsilon(site: FaultSite) -> bool:
    """Return whether the operator adds a small number to a float tensor."""
    number = site.arguments.get("other")
    if site.op != "aten.add.Tensor" or isinstance(number, bool) or not isinstance(number, int | float):
        return False
    return site.value.is_floating_point() and 0 < number <= SMALL


def dropped_bias(site: FaultSite) -> None:
    """Leave the bias out."""
    site.call(bias=None)


_OWN = (
    *(FaultKind(one, is_float) for one in (nan_channel, zeroed_channel, sign_flip, scaled, half_rounding)),
    FaultKind(wrong_epsilon, lambda site: adds_epsilon(site) or isinstance(site.arguments.get("eps"), float)),
    FaultKind(dropped_bias, lambda site: "weight" in site.arguments and site.arguments.get("bias") is not None),
)

KINDS: dict[str, FaultKind] = {kind.apply.__name__: kind for kind in _OWN}
"""Kinds by name; a caller adds kinds of its own."""

_SPEC = re.compile(r"(?P<kind>\w+)(?:/(?P<seed>\d+))?@(?P<operator>.+)", re.DOTALL)


@dataclass(frozen=True)
class Fault:
    """One fault.

    Attributes
    ----------
    operator : str
        Name of the operator: see `traces.trace.Operator`.
    seed : int
        Decides what the kind leaves open: which channel, which element.

    Raises
    ------
    InputError
        If there is no such kind.
    """

    kind: str
    operator: str
    seed: int = 0

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise InputError(f"'{self.kind}' is no kind of fault; the kinds are {', '.join(KINDS)}.")

    def __str__(self) -> str:
        seed = f"/{self.seed}" if self.seed else ""
        return f"{self.kind}{seed}@{self.operator}"

    @classmethod
    def parse(cls, text: str) -> "Fault":
        """Read a fault as `str` writes it.

        Raises
        ------
        InputError
            If it is of no such form, or of no kind that there is.

        Examples
        --------
        >>> Fault.parse("nan_channel/3@decoder.encode.norm1.norm:rsqrt")
        Fault(kind='nan_channel', operator='decoder.encode.norm1.norm:rsqrt', seed=3)
        >>> str(Fault.parse("sign_flip@:cat"))
        'sign_flip@:cat'
        """
        found = _SPEC.fullmatch(text)
        if not found:
            raise InputError(f"'{text}' is no fault; write kind@operator or kind/seed@operator.")
        return cls(found["kind"], found["operator"], int(found["seed"] or 0))


def plant(exported: Exported, fault: Fault | str) -> Exported:
    """Return a copy of an exported program with one fault in it, its operators named as in the healthy one.

    The program that is changed is the one without writes in place, whose operators have the names. Tensors that are
    not changed are shared; `exported` itself stays as it is. Plant again to have several faults in one program. A fault
    may be given as a text: see `Fault.parse`.

    Raises
    ------
    InputError
        If the program has no such operator, or this kind of fault cannot be planted there.
    """
    fault = Fault.parse(fault) if isinstance(fault, str) else fault
    program, nodes = copied_program(exported)
    if fault.operator not in nodes:
        raise InputError(f"The program has no operator '{fault.operator}'; see its `operators`.")
    node = nodes[fault.operator]
    site = FaultSite(program, node, str(fault))
    kind = KINDS[fault.kind]
    if not kind.fits(site):
        raise InputError(f"There can be no {fault.kind} at '{fault.operator}' ({site.op}); see the `fits` of the kind.")
    kind.apply(site)
    if not site.fits():
        raise InputError(f"A {fault.kind} would change shape or dtype of '{fault.operator}'; choose another operator.")
    if not node.users:  # nobody reads the falsified operator any more
        node.graph.erase_node(node)
    return with_program(exported, program)


def with_program(exported: Exported, program: Any) -> Exported:
    """Return an exported program with another graph, whose operators go by the names of the healthy one.

    Parameters
    ----------
    exported : Exported
        Its inputs and outputs stay.
    program : torch.export.ExportedProgram
        A changed copy of its specification's program: see `copied_program`.
    """
    named_by = exported.specification.named_by or exported.specification
    program.graph_module.recompile()
    program.graph.lint()
    program.validate()
    with quietly(), torch.no_grad():
        module = program.module()
    module.output_names = exported.outputs
    # the program has no writes in place already
    return replace(exported, module=module, program=program, patches=(), named_by=named_by, functional=program)


def copied_program(exported: Exported) -> tuple[Any, dict[str, Any]]:
    """Return a copy of a program, and its nodes by the names of the operators whose results they are."""
    specification = exported.specification
    program = program_copy(specification.program)
    nodes = {node.name: node for node in program.graph.nodes}
    results = specification.results(specification.program.graph.nodes)
    return program, {name: nodes[node.name] for name, node in results.items()}


def program_copy(program: Any) -> Any:
    """Return a copy of an `ExportedProgram` that shares its tensors."""
    graph_module = copy.deepcopy(program.graph_module)
    for before, after in zip(program.graph.nodes, graph_module.graph.nodes, strict=True):
        after.name = before.name  # the copy renames what is called as a builtin is, `input` or `type`
    graph_module.recompile()
    about = copy.deepcopy(program.graph_signature), dict(program.state_dict), program.range_constraints
    more = copy.deepcopy(program.module_call_graph), program.example_inputs, dict(program.constants)
    return torch.export.ExportedProgram(graph_module, graph_module.graph, *about, *more, verifiers=program.verifiers)


def possible(specification: Specification, kinds: Iterable[str] = tuple(KINDS)) -> dict[str, tuple[str, ...]]:
    """Return where each kind of fault can be planted.

    Returns
    -------
    dict
        Kind -> names of operators, in the order of execution. An operator on constants alone is left out: a compiler
        computes it beforehand, and there is no such operator in what it writes.
    """
    nodes = specification.results(specification.program.graph.nodes)
    after = with_readers(specification.operators, [f"{INPUT}{name}" for name in specification.inputs])
    names = (one.name for one in specification.operators if one.name in after)
    sites = {name: FaultSite(specification.program, nodes[name]) for name in names}
    return {kind: tuple(name for name, site in sites.items() if KINDS[kind].fits(site)) for kind in kinds}


def generate(
    specification: Specification, number: int, seed: int = 0, kinds: Iterable[str] = tuple(KINDS)
) -> list[Fault]:
    """Draw `number` different faults, one of each kind that has a place in turn.

    Parameters
    ----------
    seed : int
        The same faults for the same seed and program.

    Raises
    ------
    InputError
        If the program has no room for so many.
    """
    random = Random(seed)
    places = possible(specification, kinds)
    draws = [[Fault(kind, name) for name in random.sample(names, len(names))] for kind, names in places.items()]
    found = [fault for turn in zip_longest(*draws) for fault in turn if fault is not None]
    if len(found) < number:
        raise InputError(f"There are {len(found)} such faults in the program, not {number}; allow more kinds.")
    return found[:number]
