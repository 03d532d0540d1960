"""One named fault at one operator of an exported program."""

import copy
import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import zip_longest
from random import Random
from typing import Any

import torch

from kokoro_nb.backends.base import quietly
from kokoro_nb.backends.exported import Exported
from kokoro_nb.backends.specification import Specification
from kokoro_nb.errors import InputError
from kokoro_nb.faults.kinds import KINDS, FaultSite
from kokoro_nb.traces.trace import INPUT, with_readers

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
    before = exported.specification
    named_by = before.named_by or before
    program.graph_module.recompile()
    program.graph.lint()
    program.validate()
    with quietly(), torch.no_grad():
        module = program.module()
    module.output_names = exported.outputs
    changed = replace(exported, module=module, program=program, patches=(), named_by=named_by)
    # the program has no writes in place already: to rewrite it once more would take seconds and change nothing
    changed.__dict__["specification"] = Specification(program, before.inputs, before.outputs, named_by)
    return changed


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
    known = (*about, *more)
    return torch.export.ExportedProgram(graph_module, graph_module.graph, *known, verifiers=program.verifiers)


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
