"""The report of a defect in Markdown, as a maintainer reads it."""

import re
from collections.abc import Mapping, Sequence

from kokoro_nb.defects.defect_case import Defect
from kokoro_nb.defects.repro import Figure

_OWN = re.compile(r" \((the patch \w+|models\.[\w.]+)\)")  # a maintainer does not know our names


def report(
    defect: Defect,
    versions: Mapping[str, str],
    system: str,
    reproduce: Sequence[str],
    broken: Figure | None,
    mended: Figure | None = None,
) -> str:
    """Return the report.

    Parameters
    ----------
    defect : Defect
    versions : mapping
        Distribution -> version, with which it was measured.
    system : str
        Version of Python, and the machine.
    reproduce : sequence of str
        How to see it, by paragraphs.
    broken, mended : Figure or None
        What was measured of both forms.
    """
    forms = [(form, one) for form, one in (("As it is", broken), ("Mended", mended)) if one is not None]
    parts = [
        f"# {defect.title}",
        defect.cause,
        "## Versions",
        "\n".join([*(f"- {name} {version}" for name, version in versions.items()), f"- Python {system}"]),
        "## To reproduce",
        *reproduce,
        "## Expected and actual",
        *(
            f"{form}, {100 * one.wrong:.4g} % of the elements are wrong; the one that is most off is {one.seen} where "
            f"{one.expected} is right."
            for form, one in forms
        ),
        f"An element is wrong if it is off by more than {defect.limit:g} of the peak of what is expected, or if only "
        "one of the two is NaN or infinite.",
        *([defect.varies] if defect.varies else []),
        "## Lines at fault",
        f"{defect.where}.",
        "## Workaround",
        f"Right by the same measure: {_OWN.sub('', defect.mended_by)}.",
        "## Related",
        "\n".join(f"- {thread}" for thread in defect.threads) or "No thread about it is known to us.",
    ]
    return "\n\n".join(parts) + "\n"
