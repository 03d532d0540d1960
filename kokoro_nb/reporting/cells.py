"""The cells of an executed notebook as HTML; whatever a program printed is escaped, its HTML sanitised.

HTML written by others loses everything that could run or load something, or leave its place on the page.
"""

import base64
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from html import escape, unescape
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from nbformat import NotebookNode

PLAYER = re.compile(r'<audio\b[^>]*\bsrc="(?P<src>[^"]*)"[^>]*></audio>')
PAPERMILL_MARK = "papermill-error-cell-tag"  # cells that papermill adds about a failure
ELEMENTS = (
    "a abbr audio b blockquote br caption code col colgroup dd del details div dl dt em figcaption figure h1 h2 h3 h4 "
    "h5 h6 hr i img ins kbd li mark ol p pre s samp small span strong sub summary sup table tbody td tfoot th thead tr "
    "u ul var"
)
PLAIN = "abbr alt aria-label class colspan controls data-label height open preload rowspan scope start title width"
SOUND = re.compile(r"data:audio/[\w.+-]+;base64,[A-Za-z0-9+/=\s]*")
IMAGE = re.compile(r"data:image/(png|jpeg|gif|webp|svg\+xml);base64,[A-Za-z0-9+/=\s]*")
LINK = re.compile(r"(#|https?://|mailto:).*", re.DOTALL)
# what a figure of versions gives to its script: figures, and bytes as base64
DATA = dict.fromkeys(
    ("data-block", "data-gain", "data-hop", "data-peak", "data-rate", "data-samples"),
    re.compile(r"\d{1,12}(\.\d{1,12})?(e[+-]\d{1,3})?"),
) | {"data-values": re.compile(r"[A-Za-z0-9+/]*={0,2}")}
CHECKED = {"href": LINK, "id": re.compile(r"section-[\w-]+"), "tabindex": re.compile("0"), **DATA}
"""What attributes have to be; a place in the order of focus that others made is none."""
ATTRIBUTES = {"*": {*PLAIN.split(), "tabindex"}, "a": {"href"}, "audio": {"src"}, "img": {"src"}}
ATTRIBUTES |= {"figure": {*DATA}, "p": {*DATA}, **{f"h{level}": {"id"} for level in range(1, 7)}}
QUESTION = re.compile(r"^\*\*([^*]+\?)\*\*$", re.MULTILINE)


@dataclass
class Heading:
    """A heading of the notebook, for the table of contents."""

    level: int
    text: str
    anchor: str
    failed: bool = False


@dataclass
class Body:
    """What rendering the cells yields.

    Attributes
    ----------
    html : str
        All cells but for the title.
    title : str
        Text of the first heading of level 1, ``""`` if there is none.
    question : str
        The first paragraph that is a question in bold, which is then left out of `html`; ``""`` if there is none.
    headings : list of Heading
        Those of level 2 and 3, in order.
    stopped : str
        Anchor of the cell that failed, ``""`` if none did.
    sounds : dict of str to str
        SHA-256 of each sound that is embedded -> anchor of its player.
    """

    html: str = ""
    title: str = ""
    question: str = ""
    headings: list[Heading] = field(default_factory=list)
    stopped: str = ""
    sounds: dict[str, str] = field(default_factory=dict)


def render_cells(notebook: "NotebookNode", error: str = "") -> Body:
    """Render the cells of an executed notebook.

    Parameters
    ----------
    notebook : NotebookNode
        As papermill leaves it.
    error : str
        What stopped it; shown at the last cell that began if no cell says so itself, as when the kernel died.
    """
    body = Body()
    parts = []
    shown = [cell for cell in notebook.cells if PAPERMILL_MARK not in cell.metadata.get("tags", ())]
    began = [one for one in shown if one.cell_type == "code" and one.metadata.get("papermill", {}).get("start_time")]
    if error and began and not any(_failed(cell) for cell in shown):
        name, _, value = error.partition(": ")
        began[-1].outputs.append(type(notebook)(output_type="error", ename=name, evalue=value, traceback=[]))
    for index, cell in enumerate(shown, 1):
        if cell.cell_type == "markdown":
            source = cell.source
            if not body.question and (found := QUESTION.search(source)):
                body.question, source = " ".join(found[1].split()), source.replace(found[0], "", 1)
            parts.append(f'<div class="prose">{_markdown(source, body)}</div>')
        elif cell.cell_type == "code" and cell.source.strip():
            parts.append(_code_cell(cell, index, body))
        elif cell.cell_type == "raw" and cell.source.strip():
            parts.append(f'<pre class="stream" tabindex="0">{escape(cell.source)}</pre>')
    body.html = "\n".join(parts)
    return body


def _failed(cell: "NotebookNode") -> bool:
    expected = "raises-exception" in cell.metadata.get("tags", ())
    return not expected and any(output.output_type == "error" for output in cell.get("outputs", ()))


def _code_cell(cell: "NotebookNode", index: int, body: Body) -> str:
    from nbconvert.preprocessors import CoalesceStreamsPreprocessor

    # pieces of one stream are cut at arbitrary places, and progress bars write over what they wrote
    CoalesceStreamsPreprocessor().preprocess_cell(cell, {}, index)
    outputs = "".join(_output(output, body) for output in cell.get("outputs", []))
    anchor, kind, aside = f"cell-{index}", "cell", ""
    count = cell.get("execution_count")
    if body.stopped and not count:
        aside = '<span class="not-run">not executed</span>'
    if _failed(cell):
        kind = "cell failed"
        body.stopped = body.stopped or anchor
        if body.headings:
            body.headings[-1].failed = True
    peek = next((line for line in cell.source.splitlines() if line.strip() and not line.startswith("#")), "")
    summary = f'<span class="count">[{count or " "}]</span><code class="peek">{escape(peek)}</code>{aside}'
    code = f'<details class="code"><summary>{summary}</summary>{_highlight(cell.source)}</details>'
    return f'<section class="{kind}" id="{anchor}" aria-label="Cell {index}">{code}{outputs}</section>'


def _output(output: "NotebookNode", body: Body) -> str:
    if output.output_type == "stream":
        kind = "stream stderr" if output.name == "stderr" else "stream"
        return f'<pre class="{kind}" tabindex="0">{_terminal(output.text)}</pre>'
    if output.output_type != "error":
        return _rich(output.get("data", {}), output.get("metadata", {}), body)
    what = f"<strong>{escape(output.ename)}</strong>: {escape(output.evalue)}"
    trace = _terminal("\n".join(output.traceback))
    details = f'<details><summary>Traceback</summary><pre tabindex="0">{trace}</pre></details>' if trace else ""
    return f'<div class="error"><p><span class="knb-chip knb-fail">error</span> {what}</p>{details}</div>'


def _rich(data: Mapping[str, Any], metadata: Mapping[str, Any], body: Body) -> str:
    """Render the richest form of an output that needs nothing but HTML."""
    if "text/html" in data:
        html = sanitise(data["text/html"])
        return f'<div class="output">{PLAYER.sub(lambda found: _once(found, body), html)}</div>' if html.strip() else ""
    if "image/svg+xml" in data:
        # As an image, not inline: in an image no script runs and nothing is loaded.
        return _image("svg+xml", base64.b64encode(data["image/svg+xml"].encode()).decode(), {}, data)
    for kind in ("png", "jpeg", "gif", "webp"):
        if f"image/{kind}" in data:
            about = metadata.get(f"image/{kind}", {})
            return _image(kind, re.sub(r"[^A-Za-z0-9+/=]", "", data[f"image/{kind}"]), about, data)
    if "text/markdown" in data:
        return f'<div class="output prose">{_markdown(data["text/markdown"], Body())}</div>'
    if "text/plain" in data:
        return f'<pre class="stream" tabindex="0">{_terminal(data["text/plain"])}</pre>'
    return ""


def _image(kind: str, encoded: str, about: Mapping[str, Any], data: Mapping[str, Any]) -> str:
    plain = str(data.get("text/plain", ""))
    alt = str(about.get("alt") or ("Figure" if plain.startswith("<") or not plain else plain))
    sides = [(side, about.get(side)) for side in ("width", "height")]  # in a file that anybody may have written
    size = "".join(f' {side}="{int(x)}"' for side, x in sides if isinstance(x, int | float) and 0 < x < 1e5)
    return f'<img class="figure" src="data:image/{kind};base64,{encoded}" alt="{escape(alt)}"{size}>'


def _once(found: re.Match[str], body: Body) -> str:
    """Return a player the first time that its sound is met and a link to it each time after."""
    key = sha256(found["src"].encode()).hexdigest()
    if key in body.sounds:
        return f'<p class="again"><a href="#{body.sounds[key]}">The same sound is embedded further up.</a></p>'
    body.sounds[key] = f"sound-{len(body.sounds) + 1}"
    return found[0].replace("<audio", f'<audio id="{body.sounds[key]}"', 1)


def _markdown(source: str, body: Body) -> str:
    from nbconvert.filters.markdown_mistune import IPythonRenderer, MarkdownWithMath

    class Renderer(IPythonRenderer):
        def heading(self, text: str, level: int, **_: Any) -> str:
            plain = unescape(re.sub(r"<[^>]*>", "", text)).strip()
            if level == 1 and not body.title:
                body.title = plain
                return ""
            stem = "section-" + (re.sub(r"[^a-z0-9]+", "-", plain.lower()).strip("-") or "untitled")
            taken = {heading.anchor for heading in body.headings}
            anchor = next(name for name in (stem, *(f"{stem}-{n}" for n in range(2, 999))) if name not in taken)
            if level in (2, 3):
                body.headings.append(Heading(level, plain, anchor))
            return f'<h{level} id="{anchor}">{text}</h{level}>'

    renderer = Renderer(escape=False, exclude_anchor_links=True)
    html = sanitise(MarkdownWithMath(renderer=renderer).render(source))
    html = html.replace("<table>", '<div class="knb-scroll" tabindex="0"><table>').replace("</table>", "</table></div>")
    return html.replace("<pre>", '<pre tabindex="0">')


def _terminal(text: str) -> str:
    from nbconvert.filters import ansi2html

    return str(ansi2html(text))


def _highlight(source: str) -> str:
    from pygments import highlight
    from pygments.formatters import HtmlFormatter
    from pygments.lexers import PythonLexer

    return highlight(source, PythonLexer(), HtmlFormatter(cssclass="source", wrapcode=True))


def sanitise(html: str) -> str:
    """Return `html` with only harmless elements: no script, no style, no handler, no address that is loaded.

    Sound and images stay if they are embedded; links stay, for nothing is loaded until they are followed.

    >>> sanitise('<b onclick="x()">1 &lt; 2</b><script>x()</script><img src="http://example.org/a.png">')
    '<b>1 &lt; 2</b><img>'
    """
    import nh3

    return nh3.clean(
        html,
        tags={*ELEMENTS.split()},
        clean_content_tags={"script", "style", "template", "noscript", "iframe", "object"},  # their text is no text
        attributes=ATTRIBUTES,
        attribute_filter=_allowed,
        link_rel=None,
        url_schemes={"http", "https", "mailto", "data"},
    )


def _allowed(tag: str, name: str, value: str) -> str | None:
    pattern = {"audio": SOUND, "img": IMAGE}[tag] if name == "src" else CHECKED.get(name)
    return value if pattern is None or pattern.fullmatch(value) else None
