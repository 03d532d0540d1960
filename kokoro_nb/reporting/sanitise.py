"""HTML that others wrote, reduced to what cannot run anything, load anything or leave its place."""

import re
from functools import cache
from typing import Any

ELEMENTS = (
    "a abbr audio b blockquote br caption code col colgroup dd del details div dl dt em figcaption figure h1 h2 h3 h4 "
    "h5 h6 hr i img ins kbd li mark ol p pre s samp small span strong sub summary sup table tbody td tfoot th thead tr "
    "u ul var"
)
ATTRIBUTES = "abbr alt aria-label class colspan controls data-label height open preload rowspan scope start title width"
TAGS = frozenset(ELEMENTS.split())
PLAIN = frozenset(ATTRIBUTES.split())
SOUND = re.compile(r"data:audio/[\w.+-]+;base64,[A-Za-z0-9+/=\s]*")
IMAGE = re.compile(r"data:image/(png|jpeg|gif|webp|svg\+xml);base64,[A-Za-z0-9+/=\s]*")
LINK = re.compile(r"(#|https?://|mailto:).*", re.DOTALL)
# what a figure of versions gives to its script: figures, and bytes as base64
DATA = dict.fromkeys(
    ("data-block", "data-gain", "data-hop", "data-peak", "data-rate", "data-samples"),
    re.compile(r"\d{1,12}(\.\d{1,12})?(e[+-]\d{1,3})?"),
) | {"data-values": re.compile(r"[A-Za-z0-9+/]*={0,2}")}
ANCHOR = re.compile(r"section-[\w-]+")


def sanitise(html: str) -> str:
    """Return `html` with only harmless elements: no script, no style, no handler, no address that is loaded.

    Sound and images stay if they are embedded; links stay, for nothing is loaded until they are followed.

    >>> sanitise('<b onclick="x()">1 &lt; 2</b><script>x()</script><img src="http://example.org/a.png">')
    '<b>1 &lt; 2</b><img>'
    """
    return _cleaner().clean(html)


@cache
def _cleaner() -> Any:
    from nh3 import Cleaner

    return Cleaner(
        tags=TAGS,
        clean_content_tags={"script", "style", "template", "noscript", "iframe", "object"},  # their text is no text
        attributes={"*": {*PLAIN, *DATA, "href", "id", "src", "tabindex"}},
        attribute_filter=_allowed,
        link_rel=None,
        url_schemes={"http", "https", "mailto", "data"},
    )


def _allowed(tag: str, name: str, value: str) -> str | None:
    if name == "src":
        pattern = {"audio": SOUND, "img": IMAGE}.get(tag)
        allowed = pattern is not None and pattern.fullmatch(value) is not None
    elif name == "href":
        allowed = tag == "a" and LINK.fullmatch(value) is not None
    elif name == "id":
        allowed = re.fullmatch("h[1-6]", tag) is not None and ANCHOR.fullmatch(value) is not None
    elif name in DATA:
        allowed = tag in ("figure", "p") and DATA[name].fullmatch(value) is not None
    else:  # a place in the order of focus that others made is none
        allowed = name in PLAIN or (name == "tabindex" and value == "0")
    return value if allowed else None
