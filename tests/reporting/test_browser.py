"""The report in a real browser, without a network: accessible in light and dark, and whole after it was moved."""

import numpy as np
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_output

from kokoro_nb.markup import ORDER, Fragment, chip, table
from kokoro_nb.reporting.logbook import Logbook
from tests.reporting.conftest import keep_run, moved_report

ANSWER = f"{'decoder.generator.' * 4}conv:add is right."
PROSE = (
    "# Is it right?\n\n**Is every value right?**\n\nA question.\n\n```python\n"
    + "def long(x): return f'{x}' + str(1.5)  # long\n" * 3
    + "y" * 300
    + "\n```\n\n|a|b|\n|-|-|\n|1|2|\n"
)


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    """Return the folder of a report with everything that a page can hold, moved from where it was made."""
    root = tmp_path_factory.mktemp("made")
    folder = root / "run" / "01_all"
    folder.mkdir(parents=True)
    log = Logbook("01_all", "narrow", {"frames": 8}, folder)
    shown = [
        log.check("finite", "All of it is finite.", 1, 1, "==", backend="eager"),
        log.skip("finite", "It is finite there too.", "macOS only", "coreml"),
        log.audio("tone", 0.1 * np.sin(np.arange(2400) / 10), 24_000),
        Fragment("".join(map(chip, ORDER)), "chips"),
        table([{f"column {n}": "a long value " * 3 for n in range(12)}], caption="Wide"),
        table([{"name": "x" * 40, **{f"figure {n} (of peak)": 0.1234 * n for n in range(20)}}], caption="Figures"),
        log.answer(ANSWER),
        log,
    ]
    log.close()
    outputs = [new_output("display_data", {"text/html": one._repr_html_(), "text/plain": "one"}) for one in shown]
    outputs.append(new_output("stream", name="stdout", text="z" * 400))
    made = [new_markdown_cell(PROSE), new_code_cell("run()", outputs=outputs, execution_count=1)]
    keep_run(folder, made)
    return moved_report(root, tmp_path_factory.mktemp("attachment"))


@pytest.mark.parametrize("name", ["index.html", "01_all.html"])
def test_no_serious_violation_and_nothing_is_missed(report, open_page, violations, name):
    page, trouble = open_page(report / name)
    assert "Is it right?" in page.inner_text("body")
    assert violations(page) == []
    assert trouble == []


def test_a_violation_would_be_seen(report, open_page, violations):
    page, trouble = open_page(report / "01_all.html")
    page.evaluate("document.body.insertAdjacentHTML('beforeend', '<img src=\"https://example.org/x.png\">')")
    page.wait_for_timeout(200)
    assert violations(page) == ["image-alt"]
    assert "https://example.org/x.png" in trouble


def test_the_board_leads_to_the_page_by_keyboard(report, open_page):
    page, _ = open_page(report / "index.html")
    for _ in range(30):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.href || ''").endswith("01_all.html"):
            break
    page.keyboard.press("Enter")
    page.wait_for_url("**/01_all.html*")
    assert page.url.startswith((report / "01_all.html").as_uri())


@pytest.mark.parametrize("width", [1300, 400])
def test_the_first_screen_holds_the_answer_and_no_table_is_cut_off(report, open_page, width):
    page, _ = open_page(report / "01_all.html")
    page.set_viewport_size({"width": width, "height": 900})
    answer = page.locator("header .answer")
    assert answer.inner_text() == ANSWER
    assert answer.bounding_box()["y"] + answer.bounding_box()["height"] < 900
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), "the page itself does not scroll"
    page.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
    cut = "[...document.querySelectorAll('.knb-scroll')].filter((one) => one.scrollWidth > one.clientWidth + 1).length"
    if width == 1300:
        assert page.evaluate(cut) == 0
        page.evaluate("document.querySelector('.knb-scroll .knb-table').style.minWidth = '3000px'")
        assert page.evaluate(cut) == 1, "it would be seen"
