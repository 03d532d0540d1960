from kokoro_nb.findings import Finding
from kokoro_nb.reporting.fragments import board, overall


def finding(verdict="pass", statement="A claim.", **more):
    more.setdefault("reason", "because" if verdict in ("skip", "unknown") else "")
    return Finding("kind", verdict, statement, more.pop("weights", "narrow"), **more)


def test_the_weights_are_named_once_or_by_row():
    assert board([finding("fail"), finding("skip")]).html.count("narrow") == 1
    mixed = board([finding(weights="narrow"), finding(weights="seeded")]).html
    assert '<th scope="col">Weights</th>' in mixed
    assert "seeded" in mixed


def test_overall_is_as_bad_as_the_worst():
    worst = {(): "unknown", ("skip",): "skip", ("pass", "skip"): "pass", ("pass", "unknown"): "unknown"}
    worst |= {("pass", "fail", "unknown"): "fail"}
    assert {names: overall([finding(name) for name in names], True) for names in worst} == worst
    assert overall([finding("pass")], False) == "fail"
