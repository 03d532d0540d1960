import base64

import pytest
from bs4 import BeautifulSoup
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

from kokoro_nb.reporting.cells import render_cells, sanitise

BAD = "<script>alert(1)</script><img src=x onerror=alert(1)>"


def display(**data):
    metadata = data.pop("metadata", {})
    return new_output("display_data", {key.replace("_", "/", 1): one for key, one in data.items()}, metadata=metadata)


def code(*outputs, source="1", count=1, **metadata):
    return new_code_cell(source, outputs=list(outputs), execution_count=count, metadata=metadata)


def error(text="x", name="ValueError"):
    return new_output("error", ename=name, evalue=text, traceback=[f"\x1b[31m{name}\x1b[0m: {text}"])


def render(*cells):
    return render_cells(new_notebook(cells=list(cells)))


def test_whatever_a_program_says_is_escaped_or_sanitised():
    body = render(
        new_markdown_cell(f"# {BAD}\n\n{BAD}\n\n[x](javascript:alert(1))"),
        code(new_output("stream", name="stdout", text=BAD), source=f"'{BAD}'"),
        code(new_output("stream", name="stderr", text=BAD)),
        code(display(text_html=f"<b>{BAD}</b>"), display(text_plain=BAD), display(text_markdown=BAD)),
        code(display(image_png='"><script>alert(1)</script>', metadata={"image/png": {"alt": BAD}})),
        code(error(BAD, BAD)),
    )
    page = BeautifulSoup(body.html, "html.parser")
    assert page("script") == []
    assert [tag for tag in page(True) if any(name.startswith("on") for name in tag.attrs)] == []
    assert [tag["src"] for tag in page("img") if tag.get("src")] == ["data:image/png;base64,scriptalert1/script"]
    assert page("a", href=True) == []
    assert body.html.count("&lt;script&gt;alert(1)") >= 7


def test_the_title_is_taken_out_and_headings_get_anchors_of_their_own():
    body = render(*map(new_markdown_cell, ("# Title\n\nQuestion?", "## Effect\n## Effect\n### *Deep*\n#### x")))
    assert body.title == "Title"
    assert "<h1" not in body.html
    expected = [(2, "Effect", "section-effect"), (2, "Effect", "section-effect-2"), (3, "Deep", "section-deep")]
    assert [(heading.level, heading.text, heading.anchor) for heading in body.headings] == expected


def test_the_cell_that_failed_is_marked_and_those_after_it_were_not_executed():
    marker = new_markdown_cell("papermill's own", metadata={"tags": ["papermill-error-cell-tag"]})
    one, two = map(new_markdown_cell, ("## One", "## Two"))
    body = render(marker, one, code(), two, code(error("NaN at <har>")), code(count=None))
    assert body.stopped == "cell-4"
    assert [heading.failed for heading in body.headings] == [False, True]
    page = BeautifulSoup(body.html, "html.parser")
    assert "ValueError: NaN at <har>" in page.find(id="cell-4").find(class_="error").p.text
    assert page.find(id="cell-5").find(class_="not-run") is not None
    assert page.find(id="cell-2").find(class_="not-run") is None
    assert "papermill's own" not in body.html


def test_where_no_cell_tells_the_error_it_is_shown_at_the_last_that_began():
    began = {"start_time": "2026-11-21T09:44:07"}
    cells = [code(papermill=began), code(papermill=began), code(papermill={"start_time": None}, count=None)]
    body = render_cells(new_notebook(cells=cells), "DeadKernelError: Kernel died")
    assert body.stopped == "cell-2"
    assert "DeadKernelError</strong>: Kernel died" in body.html
    assert body.html.count("not executed") == 1


def test_pictures_are_embedded_with_their_description_and_size():
    svg = '<svg xmlns="http://www.w3.org/2000/svg"><script>alert(1)</script></svg>'
    about = {"image/png": {"alt": "A wave", "width": 300, "height": 100}}
    page = BeautifulSoup(
        render(code(display(image_png="AAAA\n", metadata=about), display(**{"image_svg+xml": svg}))).html, "html.parser"
    )
    png, vector = page("img")
    assert (png["src"], png["alt"], png["width"]) == ("data:image/png;base64,AAAA", "A wave", "300")
    assert base64.b64decode(vector["src"].removeprefix("data:image/svg+xml;base64,")).decode() == svg
    for size in (float("inf"), 10**400, "wide"):
        assert "width" not in render(code(display(image_png="A", metadata={"image/png": {"width": size}}))).html


def test_outputs_are_shown_once_each_in_their_richest_form():
    streams = [new_output("stream", name="stdout", text=text) for text in ("10 %\r2", "0 %\ndone", "\n")]
    body = render(code(*streams, source="# why\nx = 1\ny = 2"))
    assert ">20 %\ndone\n</pre>" in body.html, "pieces are joined, and what was written over is dropped"
    body = render(code(error("as it should"), tags=["raises-exception"]))
    assert body.stopped == ""
    assert '<span class="ansi-red-fg">ValueError</span>' in body.html
    shown = render(code(display(text_html="<b>rich</b>", text_plain="plain"))).html
    assert "<b>rich</b>" in shown
    assert "plain" not in shown


@pytest.mark.parametrize(
    "html",
    [
        "<img src=x onerror=alert(1)>",
        "<a href='javascript:alert(1)'>x</a>",
        "<style>@import 'http://example.org/a.css'</style>",
        "<b style='background:url(http://example.org)'>x</b>",
        "<img src='data:text/html;base64,PHNjcmlwdD4='>",
        "<h2 id='finding-1'>x</h2>",
        "<!--><img src=x onerror=alert(1)>-->",
        "<p data-values='https://example.org'></p>",
        "<figure data-rate='javascript:x'></figure>",
        "<div data-values='AAAA'></div>",
    ],
)
def test_nothing_that_runs_or_loads_survives(html):
    dangers = ("alert(1)", "example.org", "javascript", "src=", "<style", "id=", "data-")
    assert not any(word in sanitise(html) for word in dangers)


@pytest.mark.parametrize(
    "html",
    [
        '<table class="dataframe"><thead><tr><th>a</th></tr></thead></table>',
        '<audio controls="" src="data:audio/flac;base64,AAAA"></audio>',
        '<img alt="a" src="data:image/png;base64,AAAA">',
        '<a href="https://example.org/paper">paper</a>',
        '<h2 id="section-effect">Effect</h2>',
        "1 &lt; 2 &amp; 3",
        '<figure data-gain="1.5e-05" data-rate="24000"></figure><p data-values="gH8AAA=="></p>',
    ],
)
def test_what_is_harmless_stays_as_it_is(html):
    assert sanitise(html) == html
