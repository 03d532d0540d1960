import math

from kokoro_nb.findings import Finding, verdict_line
from kokoro_nb.reporting.fragments import board, overall, tally

BAD = "<script>alert(1)</script>"


def finding(verdict="pass", statement="A claim.", **more):
    more.setdefault("reason", "because" if verdict in ("skip", "unknown") else "")
    return Finding("kind", verdict, statement, more.pop("weights", "narrow"), **more)


def test_board_puts_failures_first_and_keeps_the_order_of_the_rest():
    findings = [finding("pass", "one"), finding("skip", "two"), finding("fail", "three"), finding("unknown", "four")]
    html = board(findings).html
    places = [html.index(word) for word in ("three", "four", "two", "one")]
    assert places == sorted(places)
    assert "id=finding-3" in html, "the anchor counts in the order of findings.json"
    html = board([finding("fail", value=math.nan, limit=1e-4), finding("skip", reason="no macOS here")]).html
    assert ">NaN<" in html
    assert html.count("narrow") == 1, "the weights are named once, or by row"
    mixed = board([finding(weights="narrow"), finding(weights="seeded")]).html
    assert '<th scope="col">Weights</th>' in mixed
    assert "seeded" in mixed
    assert tally([finding("fail"), finding(), finding()]) == "3 checks: 1 failed, 2 passed"
    line = verdict_line(finding(value=110.2, limit=40, unit="dB", backend="onnxruntime", relation=">="))
    assert repr(line) == "PASS: A claim. · onnxruntime · 110.2 ≥ 40 dB"
    assert "<style>" in line._repr_html_()


def test_overall_is_as_bad_as_the_worst():
    worst = {(): "unknown", ("skip",): "skip", ("pass", "skip"): "pass", ("pass", "unknown"): "unknown"}
    worst |= {("pass", "fail", "unknown"): "fail"}
    assert {names: overall([finding(name) for name in names], True) for names in worst} == worst
    assert overall([finding("pass")], False) == "fail"
