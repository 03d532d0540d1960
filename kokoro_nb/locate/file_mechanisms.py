"""Which mechanisms a file itself speaks for: few bits, other constants, frozen lengths."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from kokoro_nb.backends.file_facts import FileFact
from kokoro_nb.locate.culprit import Culprit
from kokoro_nb.locate.mechanism import Mechanism


def with_facts(culprits: Sequence[Culprit], facts: Mapping[str, FileFact]) -> tuple[Culprit, ...]:
    """Return the culprits, each with what the file says of it before what its figures speak for."""
    return tuple(
        replace(one, mechanisms=(*_mechanisms(facts[one.tap.name]), *one.mechanisms))
        if one.tap is not None and one.tap.name in facts
        else one
        for one in culprits
    )


def _mechanisms(fact: FileFact) -> Iterator[Mechanism]:
    if fact.frozen:
        yield Mechanism("frozen length", "the length of the example that it was exported with", fact.frozen)
    if fact.changed:
        yield Mechanism("changed constant", "the file holds another constant than the module", fact.changed)
    if fact.quantised:
        text = f"the file computes it by {', '.join(fact.quantised)}"
        words = "8 bits or fewer for a tensor, in one range for the loud and the quiet of it"
        yield Mechanism("quantisation range", words, (text,))
