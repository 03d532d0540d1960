"""Cards of wrong exports: of a diagnosis with everything in it, of less and less, and of one that others wrote."""

import math
from dataclasses import replace

import numpy as np

from kokoro_nb.backends.base import Failure
from kokoro_nb.findings import Finding, read_findings
from kokoro_nb.locate.culprit import Culprit, Mechanism
from kokoro_nb.locate.diagnosis import Diagnosis
from kokoro_nb.locate.output_error import OutputError
from kokoro_nb.locate.remedies import Remedy
from kokoro_nb.reporting.html import _first_cards, wrong_exports
from kokoro_nb.reporting.logbook import Logbook
from kokoro_nb.reporting.wrong_export import card, described, symptom
from kokoro_nb.traces.statistics import describe
from kokoro_nb.traces.trace import Operator, Tap
from tests.refusals import refused

BAD = "<script>alert(1)</script>"


def culprit(name="decoder.norm:instance_norm", effect=1.0):
    given = np.ones(3, np.float32)
    tap = Tap(Operator(name, "aten.instance_norm.default", "", ("x",), (3,), "float32"), describe(given), given)
    why = Mechanism("one-pass variance", "E[x²] - E[x]²", ("mean² / variance is 1e12",))
    why = replace(why, defect="coremltools_int", threads=("apple/coremltools#2633",))
    return Culprit(
        *("nonfinite", "fail", "tvm", tap, (name,), "9 of 64 channels", math.nan, 4e-4),
        mechanisms=(why,),
        effect=effect,
        source="istftnet.py:31",
    )


def sick(**changes):
    remedy = Remedy("patch", "two_pass_norm", "The variance is computed in two passes.", math.nan, 2.9e-5, "pass")
    found = Diagnosis(
        *("tvm", "tracing", "it shows 9 operators", "fail", (culprit(),), "The norm is wrong."),
        output=OutputError("output", math.nan, 0.0),
        remedies=(remedy,),
    )
    return replace(found, **changes)


def test_the_card_says_what_where_why_what_is_known_and_what_cures_it():
    shown = card(described(sick(), "Kokoro's decoder", "Made wrong on purpose.", "bundle"), "15_x.html", "15_x", "../b")
    for words in (
        *("all NaN", "Kokoro's decoder", "on tvm", "<code>decoder.norm</code>", "<code>instance_norm</code>"),
        *("istftnet.py:31", "9 of 64 channels", "100 % of the output", "one-pass variance", "mean² / variance is 1e12"),
        *("https://github.com/apple/coremltools/issues/2633", "two_pass_norm", "NaN → 0.0029 % of its peak"),
        *("Made wrong on purpose.", 'href="15_x.html"', 'href="../b"'),
    ):
        assert words in shown.html.replace("&#x27;", "'"), words
    nothing = described(sick(culprits=(), remedies=(), verdict="unknown"), "It")
    assert all(words in card(nothing).html for words in ("No single operator is named", "None tried.", "knb-unknown"))


def test_the_symptom_in_two_words_with_its_limit_and_the_worst_first():
    outputs = {
        "23 % off": OutputError("output", 0.234, 1.0, 1e-3, "twice the floor"),
        "NaN": OutputError("output", math.nan, 0.75),
        "all NaN": OutputError("output", math.nan, 0.0),
    }
    rows = [described(sick(output=output), "It") for output in outputs.values()]
    assert [symptom(row)[0] for row in rows] == list(outputs)
    assert "23 % of its peak; 0.1 % is allowed" in symptom(rows[0])[1]
    assert symptom(described(sick(output=None), "It"))[0] == "fail"
    rows.append(described(Failure("tvm", "lowered", "E", "no"), "It"))
    order = [symptom(row)[2] for row in rows]
    assert order == sorted({*order})


def test_it_is_recorded_read_again_and_no_check(tmp_path):
    log = Logbook("15_x", "mini", {}, tmp_path)
    (tmp_path / "bundle").mkdir()
    log.diagnosis(sick(), "The decoder", bundle=tmp_path / "bundle")
    log.close()
    (finding,), _ = read_findings(tmp_path / "findings.json")
    assert (finding.kind, finding.verdict) == ("diagnosis", "fail")
    assert finding.tap == "decoder.norm:instance_norm (aten.instance_norm.default)"
    (shown,) = wrong_exports([finding], "15_x", tmp_path, tmp_path / "report")
    assert 'href="../bundle"' in shown.first_page
    assert "NaN → 0.0029 %" in shown.first_page, "figures that are not finite are read as such"
    refused("has to lie below", log.diagnosis, sick(), bundle=tmp_path.parent)


def test_the_first_page_has_one_card_for_exports_that_fail_alike(tmp_path):
    rows = [
        described(Failure("tvm", "lowered", "E", error), part)
        for error, part in (("no mul", "The whole"), ("no mul", "A part"), ("no add", "Another"))
    ]
    rows.insert(0, described(sick(), "The norm"))
    findings = [Finding("diagnosis", "fail", "x", "w", diagnosis=row) for row in rows]
    cards = _first_cards(wrong_exports(findings, "01_x", tmp_path, tmp_path))
    assert [name in text for name, text in zip(("The whole", "Another", "The norm"), cards, strict=True)] == [True] * 3
    assert "The same error in 1 more." in cards[0]


def test_what_others_wrote_is_escaped_or_refused(tmp_path):
    row = described(sick(), BAD, BAD, "../../..")
    row["known"] = {"name": BAD, "title": BAD, "threads": [f"x/y#{BAD}"]}
    row["culprits"][0] |= {"tap": BAD, "channels": BAD, "source": BAD}
    (shown,) = wrong_exports([Finding("diagnosis", "fail", "x", "w", diagnosis=row)], "01_x", tmp_path, tmp_path)
    assert "<script" not in shown.first_page
    assert 'href="../' not in shown.first_page
    for change in ({"culprits": 3}, {"remedies": [1]}, {"output": {"finite (%)": "many"}}, {"failure": "x"}):
        finding = Finding("diagnosis", "fail", "x", "w", diagnosis={**row, **change})
        refused("cannot be shown", wrong_exports, [finding], "01_x", tmp_path, tmp_path)
