"""What the exports of the voice and of the ear share: float16, the limit of their size, and parts of their cards."""

import re
import textwrap
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import torch

from kokoro_nb.errors import InputError

CARD = "MODEL_CARD.md"  # in every folder of exported weights
EARLIER = "*Measured on the weights that were here before these; measure again.*"


def as_float16(name: str, tensor: torch.Tensor) -> torch.Tensor:
    """Return a weight in float16.

    Raises
    ------
    InputError
        If it is beyond its range, or not finite.
    """
    half = tensor.detach().to(torch.float16).contiguous()
    if not torch.isfinite(half).all():
        raise InputError(f"'{name}' does not fit into float16; train again with a lower rate.")
    return half


def require_size(size: int, most: int) -> None:
    """Raise InputError if `size` bytes are more than `most`."""
    if size > most:
        raise InputError(f"The weights take {size} bytes, {most} are allowed; train a narrower model.")


def bullets(facts: Iterable[str]) -> str:
    """Return the facts as a list in Markdown, lines of 118 characters at most."""
    return "\n".join(textwrap.fill(fact, 118, initial_indent="- ", subsequent_indent="  ") for fact in facts)


def losses_table(history: list[dict[str, Any]], weights: Mapping[str, float]) -> str:
    """Return the last logged value of each loss and its weight, as a section in Markdown."""
    last = history[-1] if history else {}
    rows = "\n".join(f"| {name} | {last[name]:.4g} | {weights[name]:g} |" for name in weights if name in last)
    return f"""## Training losses, mean of the last steps logged

| term | value | weight |
| --- | --- | --- |
{rows}
"""


def with_earlier_sections(card: str, folder: Path) -> str:
    """Return `card`, and behind it the sections that the card in `folder` has and it lacks.

    Other programs measured them, on the weights that are replaced: each says so below its heading, once.
    """
    path = folder / CARD
    before = _sections(path.read_text(encoding="utf-8")) if path.is_file() else {}
    lacking = {heading: text for heading, text in before.items() if heading not in _sections(card)}
    kept = (
        f"## {heading}\n\n{text}" if text.startswith(EARLIER) else f"## {heading}\n\n{EARLIER}\n\n{text}"
        for heading, text in lacking.items()
    )
    return "\n\n".join([card.rstrip("\n"), *kept]) + "\n"


def _sections(card: str) -> dict[str, str]:
    """Return heading -> text of the sections of the second level."""
    found = re.split(r"^## (.+)$", card, flags=re.MULTILINE)[1:]
    return {heading.strip(): text.strip() for heading, text in zip(found[::2], found[1::2], strict=True)}
