import math
from html import escape

import numpy as np

from kokoro_nb.markup import Fragment, chip, line, number, table

BAD = "<script>alert(1)</script>"


def test_number_keeps_four_digits_and_names_what_is_not_finite():
    texts = {0: "0", 0.00123456: "0.001235", 0.000123456: "1.235e-4", 123.456: "123.5", 9999.6: "10,000"}
    texts |= {52013.4: "52,013", 3.2e9: "3.2e9", math.inf: "∞", -math.inf: "-∞", np.float32(0.5): "0.5"}
    assert {value: number(value) for value in texts} == texts
    assert number(math.nan) == "NaN"


def test_what_others_wrote_is_escaped_and_figures_are_aligned():
    shown = table([{BAD: BAD, "error": math.nan}, {"error": 0.5, "verdict": "fail"}], BAD)
    assert "<script" not in shown.html
    assert '<td class="knb-number"><strong class="knb-nonfinite">NaN</strong></td>' in shown.html
    assert "knb-chip knb-fail" in shown.html
    assert table([], BAD).html == f'<p class="knb knb-note">{escape(BAD)}. No rows.</p>'
    assert "<script" not in chip('"><script>')
    shown = line("fail", BAD, [BAD, "12 dB"])
    assert "<script" not in shown.html
    assert repr(shown) == f"FAIL: {BAD} · {BAD} · 12 dB"


def test_table_gives_figures_of_like_size_the_same_decimals():
    lines = repr(table([{"s": 12.31}, {"s": 38.0}, {"s": 41.2}])).splitlines()
    assert lines == ["    s", "12.31", "38.00", "41.20"]
    assert repr(table([{"s": 12.31}, {"s": 1e-7}])).splitlines()[2].strip() == "1e-7", "never rounded to nothing"
    assert repr(table([{"s": 0.6828}, {"s": 0.0}])).splitlines()[2].strip() == "0", "what is exact looks exact"


def test_a_fragment_carries_its_style_and_says_its_text_where_html_is_not_shown():
    shown = Fragment("<b>1</b>", "one", ".mine { color: red }")
    page = shown._repr_html_()
    assert ".mine { color: red }</style>" in page
    assert page.endswith("<b>1</b>")
    shown = table([{"name": Fragment("<b>relu</b>", "relu")}])
    assert repr(shown) == "name\nrelu"


def test_a_table_keeps_what_fits_in_sight_and_folds_the_rest_away():
    rows = [{"name": f"{n}", **{f"figure {k}": n * 1.5 + k for k in range(30)}, "verdict": "pass"} for n in range(4)]
    shown = table([{**one, "unit": "dB"} for one in rows], "Figures")
    seen, _, folded = shown.html.partition("<details")
    assert "figure 0" in seen
    assert "figure 29" not in seen
    assert seen.count("knb-pass") == 4, "verdicts stay in sight"
    assert folded.count('<th scope="col">name</th>') == folded.count("<table"), "each part names its rows"
    assert all(f">figure {k}</th>" in shown.html for k in range(30))
    assert "Figures; unit: dB in each row" in seen
    assert "unit</th>" not in shown.html
    assert "<details" not in table([{"a": 1, "b": 2}]).html
    assert repr(shown).splitlines()[0].split()[-1] == "unit", "as text every column is there"
