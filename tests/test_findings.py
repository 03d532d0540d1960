import json
from dataclasses import asdict

from kokoro_nb.findings import Finding, read_findings, write_findings
from tests.refusals import refused

PASSED = Finding("parity", "pass", "It agrees.", "seeded", "onnxruntime", 1e-6, 1e-4, "of peak", evidence=("a.png",))
FAILED = Finding("finite", "fail", "It is finite.", "seeded", value=float("nan"), limit=1.0, reason="measured NaN")


def test_round_trip_keeps_nan_and_what_is_said_about_them(tmp_path):
    path = write_findings(tmp_path / "findings.json", [PASSED, FAILED], notebook="02_export")
    (first, second), about = read_findings(path)
    assert first == PASSED
    assert str(second.value) == "nan"
    assert (second.verdict, second.reason) == ("fail", "measured NaN")
    assert about["notebook"] == "02_export"


def test_a_finding_that_would_mislead_is_refused():
    row = {"kind": "parity", "verdict": "pass", "statement": "It agrees.", "weights": "seeded"}
    for change, match in (
        ({"verdict": "good"}, "no verdict"),
        ({"verdict": "skip"}, "needs a reason"),
        ({"verdict": "unknown"}, "needs a reason"),
        ({"value": float("nan")}, "NaN is no pass"),
        ({"relation": "about"}, "no relation"),
    ):
        refused(match, Finding, **row | change)


def test_a_diagnosis_is_kept_and_a_file_without_any_is_still_read(tmp_path):
    sick = Finding("diagnosis", "fail", "It is sick.", "seeded", diagnosis={"culprits": [{"op": "exp"}], "share": None})
    ((found,), about) = read_findings(write_findings(tmp_path / "findings.json", [sick]))
    assert (found, about["schema"]) == (sick, 2)
    row = {key: value for key, value in asdict(PASSED).items() if key != "diagnosis"}
    (tmp_path / "old.json").write_text(json.dumps({"schema": 1, "findings": [row]}))
    assert read_findings(tmp_path / "old.json")[0] == (PASSED,)


def test_a_finding_shows_itself_as_a_line_and_escapes_it():
    read = "".join(["pa", "ss"])  # as from a file: an object of its own
    held = {"value": 1e-6, "limit": 1e-4, "relation": "<="}
    assert "1e-6 ≤ 1e-4 of peak" in Finding("parity", read, "It agrees.", "w", unit="of peak", **held)._repr_html_()
    for verdict in ("unknown", "fail"):  # a limit stands behind a figure that was held to it
        assert "1e-4" not in Finding("parity", verdict, "It agrees.", "w", reason="no tap", **held)._repr_html_()
    bad = "<script>alert(1)</script>"
    page = Finding("finite", "fail", bad, "narrow", bad, 1.0, unit=bad, reason=bad)._repr_html_()
    assert "<script" not in page
    assert page.count("&lt;script&gt;") == 4
