"""Many faults, drawn by a seed over kinds, operators and depths."""

from collections.abc import Iterator, Sequence
from itertools import count
from random import Random

from kokoro_nb.backends.specification import Specification
from kokoro_nb.errors import InputError
from kokoro_nb.faults.kinds import KINDS
from kokoro_nb.faults.planting import Fault
from kokoro_nb.faults.planting_site import FaultSite
from kokoro_nb.traces.operators import INPUT, Operator

DEPTHS = 3  # parts of equal length in which the order of execution is cut


def possible(specification: Specification, kinds: Sequence[str] = tuple(KINDS)) -> dict[str, tuple[str, ...]]:
    """Return where each kind of fault can be planted.

    Returns
    -------
    dict
        Kind -> names of operators, in the order of execution. An operator on constants alone is left out: a compiler
        computes it beforehand, and there is no such operator in what it writes.
    """
    nodes = specification.results(specification.program.graph.nodes)
    sites = {name: FaultSite(specification.program, nodes[name]) for name in _on_inputs(specification.operators)}
    return {kind: tuple(name for name, site in sites.items() if KINDS[kind].fits(site)) for kind in kinds}


def generate(
    specification: Specification, number: int, seed: int = 0, kinds: Sequence[str] = tuple(KINDS)
) -> list[Fault]:
    """Draw `number` different faults: every kind that has a place and, of each, every depth in turn.

    Parameters
    ----------
    seed : int
        The same faults for the same seed and program.

    Returns
    -------
    list of Fault
        One of each kind in turn. A kind of which the seed decides something comes with several seeds once all its
        places have been taken.

    Raises
    ------
    InputError
        If the program has no room for so many.
    """
    random = Random(seed)
    places = {kind: names for kind, names in possible(specification, kinds).items() if names}
    draws = [_draws(kind, names, specification.operators, random) for kind, names in places.items()]
    found: list[Fault] = []
    while len(found) < number and draws:
        turn = [(draw, next(draw, None)) for draw in draws]
        found += [fault for _, fault in turn if fault is not None]
        draws = [draw for draw, fault in turn if fault is not None]
    if len(found) < number:
        raise InputError(f"There are {len(found)} such faults in the program, not {number}; allow more kinds.")
    return found[:number]


def _draws(kind: str, places: Sequence[str], operators: Sequence[Operator], random: Random) -> Iterator[Fault]:
    """Yield faults of one kind from the parts of the program in turn; without end where the seed makes another one."""
    order = {operator.name: place for place, operator in enumerate(operators)}
    parts: list[list[str]] = [[] for _ in range(DEPTHS)]
    for name in places:
        parts[order[name] * DEPTHS // len(order)].append(name)
    for part in parts:
        random.shuffle(part)
    start = random.randrange(DEPTHS)
    turned = [part for part in parts[start:] + parts[:start] if part]
    once = [part[i] for i in range(max(map(len, turned))) for part in turned if i < len(part)]
    for seed in count() if KINDS[kind].seeded else range(1):
        for name in once:
            yield Fault(kind, name, seed)


def _on_inputs(operators: Sequence[Operator]) -> list[str]:
    """Return the names of the operators whose result depends on an input."""
    found: set[str] = set()
    for operator in operators:
        if any(source.startswith(INPUT) or source in found for source in operator.inputs):
            found.add(operator.name)
    return [operator.name for operator in operators if operator.name in found]
