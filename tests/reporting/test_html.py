import base64
import math
from dataclasses import replace
from hashlib import sha256

import numpy as np
import pytest
from bs4 import BeautifulSoup
from nbformat.v4 import new_code_cell, new_markdown_cell, new_output

from kokoro_nb.findings import Finding, write_findings
from kokoro_nb.markup import resource
from kokoro_nb.reporting.html import Report
from kokoro_nb.reporting.runs import write_run
from kokoro_nb.reporting.style import encode_png
from tests.reporting.conftest import keep_run

BAD = "<script>alert(1)</script><img src=http://example.org/x onerror=alert(1)>"
SOUND = '<audio controls src="data:audio/flac;base64,QUJD"></audio>'


def cells(*more):
    return [new_markdown_cell("# Where is the NaN?\n\nA question."), new_markdown_cell("## First"), *more]


def keep(folder, name, notebook_cells, findings, status="passed", error="", **more):
    about = {"weights": "narrow", "parameters": {"text": BAD}, "versions": {"torch": "2"}, "commit": "abc", **more}
    write_findings(folder / name / "findings.json", findings, notebook=name, **about)
    return keep_run(folder / name, notebook_cells, status, error, 72.4)


@pytest.fixture
def report(tmp_path):
    """A report of a notebook that passed, one that failed with hostile texts, and one that was interrupted."""
    run = tmp_path / "run"
    good = [Finding("finite", "pass", "All finite.", "narrow", "eager", 100, 100, "%")]
    keep(run, "01_good", cells(new_code_cell("1", execution_count=1)), good)
    outputs = [
        new_output("stream", name="stdout", text=BAD),
        new_output("display_data", {"text/html": SOUND + BAD}),
        new_output("display_data", {"text/html": SOUND}),
        new_output("error", ename="AssertionError", evalue=BAD, traceback=[BAD]),
    ]
    findings = [
        Finding("finite", "pass", "It is finite in eager.", "narrow"),
        Finding("finite", "skip", "It is finite on Core ML.", "narrow", "coreml", reason="macOS only"),
        Finding("parity", "fail", f"It agrees. {BAD}", "narrow", BAD, math.nan, 1e-4, BAD, BAD, BAD),
    ]
    bad_cells = cells(new_code_cell("check()", outputs=outputs, execution_count=1), new_code_cell("later()"))
    keep(run, "03_bad", bad_cells, findings, "failed", f"AssertionError: {BAD}")
    stopped = keep(run, "05_stopped", cells(), [], "interrupted")
    write_run(run / "05_stopped", replace(stopped, files={}, seconds=None))
    (run / "05_stopped" / "05_stopped.ipynb").write_text('{"cells": [')  # half-written: must not be opened
    index = Report(run, tmp_path / "report").close()
    return {path.name: path.read_text(encoding="utf-8") for path in index.parent.iterdir()}


def parsed(text):
    return BeautifulSoup(text, "html.parser")


def test_pages_are_complete_in_themselves_and_nothing_hostile_survives_on_any(report):
    assert set(report) == {"index.html", "01_good.html", "03_bad.html", "05_stopped.html"}
    for name, text in report.items():
        page = parsed(text)
        assert all(script.string == resource("reporting/page.js") for script in page("script")), name
        assert not [tag for tag in page(True) if any(key.startswith("on") for key in tag.attrs)], name
        assert "<script>alert" not in text, name
        assert page("link") == page("iframe") == page("object") == [], name
        assert all(tag["src"].startswith("data:") for tag in page(src=True)), name
        for tag in page(href=True):
            target, _, anchor = tag["href"].partition("#")
            assert target in {"", *report}, (name, tag["href"])
            assert not anchor or parsed(report[target or name]).find(id=anchor) is not None, (name, tag["href"])
        assert "url(" not in "".join(style.string for style in page("style")), name
        policy = page.find("meta", {"http-equiv": "Content-Security-Policy"})["content"]
        assert policy.startswith("default-src 'none'"), name
        for script in page("script"):
            assert base64.b64encode(sha256(script.string.encode()).digest()).decode() in policy, name
    assert report["03_bad.html"].count("base64,QUJD") == 1, "a sound is embedded once"


def test_the_verdict_comes_first_and_failures_first_in_it(report):
    page = parsed(report["03_bad.html"])
    assert page.title.text == "FAIL: Where is the NaN?"
    verdict = " ".join(page.find(class_="verdict").text.split())
    assert verdict == "fail 3 checks: 1 failed, 1 skipped, 1 passed; stopped before its end"
    assert [row.td.text for row in page.find(id="verdicts")("tr") if row.td] == ["fail", "skip", "pass"]
    assert page.find(id="finding-1").find_parent("details").summary.text == "1 check passed"
    assert page.find(id="finding-3").find_parent("details") is None
    assert "There is no answer: the notebook ended before it." in page.header.text
    assert "macOS only" in page.find(id="finding-2").text
    banner = page.find(class_="banner")
    assert "AssertionError" in page.find(id=banner.a["href"].removeprefix("#")).find(class_="error").text
    assert "interrupted" in parsed(report["05_stopped.html"]).find(class_="banner").text
    told = parsed(report["01_good.html"]).text
    assert all(part in told for part in ("narrow", "torch", "abc", "1 min 12 s", "2026-11-21 09:44 UTC"))
    assert BAD in told, "the parameter, as text"


def test_the_index_has_every_verdict_with_its_figure_and_its_link(report):
    page = parsed(report["index.html"])
    assert page.title.text == "FAIL: kokoro_nb report"
    rows = [(one["id"], one.h3.span.text, one.find(class_="facts").text.partition(" · ")) for one in page("li")]
    rows = [(name, verdict, state, facts.partition(" · ")[0]) for name, verdict, (state, _, facts) in rows]
    assert rows == [
        ("01_good", "pass", "completed", "1 check: 1 passed"),
        ("03_bad", "fail", "stopped", "3 checks: 1 failed, 1 skipped, 1 passed"),
        ("05_stopped", "fail", "interrupted", "0 checks: none made"),
    ]
    told = [[cell.text for cell in row("td")] for row in page.find(id="backends").tbody("tr")]
    assert told == [[BAD, "1", "0", "0", "03"], ["coreml", "0", "1", "0", "03"], ["eager", "0", "0", "1", "01"]]


@pytest.mark.parametrize(
    ("answer", "picture"),
    [
        ({"text": f"It is NaN. {BAD}", "picture": "one.png", "alt": "A curve"}, "A curve"),
        ({"text": f"It is NaN. {BAD}", "picture": "../elsewhere.png"}, None),
        ([BAD], "The first figure of the notebook"),
    ],
)
def test_a_page_begins_with_question_answer_and_picture(tmp_path, answer, picture):
    folder = tmp_path / "run" / "01_one"
    folder.mkdir(parents=True)
    for path in (folder / "one.png", tmp_path / "run" / "elsewhere.png"):
        path.write_bytes(base64.b64decode(encode_png(np.zeros((9, 16, 3), np.uint8))))
    made = [
        new_markdown_cell("# Title\n\n**Where is\nthe NaN?**\n\nMore of it."),
        new_code_cell("1", execution_count=1),
    ]
    keep(folder.parent, "01_one", made, [], answer=answer, figures=[{"name": "one", "path": "one.png"}])
    report = Report(tmp_path / "run", tmp_path / "report").close().parent
    page, index = (parsed((report / name).read_text(encoding="utf-8")) for name in ("01_one.html", "index.html"))
    assert page.header.find(class_="question").text == index.find(class_="question").text == "Where is the NaN?"
    assert "Where is" not in page.article.text, "it is not said twice"
    said = [one.text for each in (page.header, index) for one in each(class_="answer")]
    assert said == ([f"It is NaN. {BAD}"] * 2 if isinstance(answer, dict) else [])
    assert [one["alt"] for one in page.header("img")] == ([picture] if picture else [])
    assert len(index.find(id="notebooks")("img")) == (picture is not None)


def test_the_index_is_there_before_anything_has_run_and_each_page_as_it_ends(tmp_path):
    run, out = tmp_path / "run", tmp_path / "report"
    live = Report(run, out, awaited=("01_good", "02_next"))

    def index():
        return parsed(live.update().read_text(encoding="utf-8"))

    page = index()
    assert "0 of 2 notebooks have ended" in page.get_text()
    assert page.find("meta", attrs={"http-equiv": "refresh"}) is not None
    assert [one.h3.span.text for one in page("li")] == ["waiting", "waiting"]
    assert page.find(class_="verdict").span.text == "running"
    keep(run, "01_good", cells(), [Finding("finite", "pass", "All finite.", "narrow")])
    page = index()
    assert "1 of 2 notebooks have ended" in page.get_text()
    written = (out / "01_good.html").stat().st_mtime_ns
    keep(run, "02_next", cells(), [])
    page = index()
    assert page.find("meta", attrs={"http-equiv": "refresh"}) is None
    assert (out / "01_good.html").stat().st_mtime_ns == written, "what has not changed is not written again"
