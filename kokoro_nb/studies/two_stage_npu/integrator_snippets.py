"""What an integrator computes between the programs, in three languages, run on golden vectors."""

from dataclasses import dataclass
from pathlib import Path

from kokoro_nb.delivery.golden import SnippetCheck, check, write_golden
from kokoro_nb.delivery.languages import LANGUAGES, SNIPPETS


@dataclass(frozen=True)
class Snippet:
    """A snippet of source code.

    Attributes
    ----------
    language, file, source : str
        Key of `LANGUAGES`, the file's name and its text.
    checked : SnippetCheck or str
        What it computes of the golden vectors, or why it cannot be compiled here.
    """

    language: str
    file: str
    source: str
    checked: SnippetCheck | str


def snippets(golden: str | Path) -> tuple[Snippet, ...]:
    """Write the golden vectors to the file `golden`, and run the snippet of every language on them."""
    write_golden(golden)
    return tuple(
        Snippet(name, about.snippet, (SNIPPETS / about.snippet).read_text(encoding="utf-8"), check(name))
        for name, about in LANGUAGES.items()
    )
