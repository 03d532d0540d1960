"""Versions side by side in a real browser: what is heard while one switches, what is drawn while one zooms."""

import numpy as np
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_output

from kokoro_nb.reporting.logbook import Logbook
from tests.reporting.conftest import keep_run, moved_report

SR, LENGTH = 24_000, 480_000  # longer than the slowest machine takes to switch five times
RISING = 0.1 + 0.8 * np.arange(LENGTH) / LENGTH  # whoever hears a sample of it knows which
# everything that is heard passes through an analyser, whose last sample is what comes out of the loudspeaker
TAP = """(() => {
  const connect = AudioNode.prototype.connect;
  AudioNode.prototype.connect = function (to, ...rest) {
    if (!(to instanceof AudioDestinationNode)) return connect.call(this, to, ...rest);
    if (window.tap?.context !== this.context) {
      window.tap = new AnalyserNode(this.context, { fftSize: 32 });
      connect.call(window.tap, to);
    }
    return connect.call(this, window.tap);
  };
})();"""
# the last sample, its time on the audio clock, and which one the page says is heard: the loudspeaker comes later
HEARD = """async () => {
  await new Promise(requestAnimationFrame);
  const samples = new Float32Array(32);
  window.tap.getFloatTimeDomainData(samples);
  const { currentTime, outputLatency, sampleRate } = window.tap.context;
  const told = Number(document.querySelector(".knb-seek").value) / sampleRate;
  return [samples[31], currentTime, told + (outputLatency || 0)];
}"""
INK = """(canvas) => {
  const data = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
  return data.reduce((sum, value, n) => (sum * 31 + value * (n % 251)) % 1000003, 7);
}"""


def keep(folder, versions):
    folder.mkdir(parents=True)
    log = Logbook(folder.name, "narrow", {}, folder)
    shown = log.side_by_side(versions, SR, "Four versions")
    log.close()
    outputs = [new_output("display_data", {"text/html": shown._repr_html_(), "text/plain": repr(shown)})]
    code = new_code_cell("show()", outputs=outputs, execution_count=1)
    keep_run(folder, [new_markdown_cell("# Is it heard?\n\nA question."), code])


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    """Return a report with versions of which every sample is known: one rises, one falls, one is broken, one alike."""
    root = tmp_path_factory.mktemp("made")
    broken = RISING.copy()
    broken[20_000:30_000] = np.nan
    versions = {"rising": RISING, "falling <b>": -RISING, "broken": broken, "alike": RISING}
    keep(root / "run" / "01_versions", versions)
    keep(root / "run" / "02_silent", {"nowhere": np.full(LENGTH, np.nan), "broken": broken})
    return moved_report(root, tmp_path_factory.mktemp("attachment"))


@pytest.fixture
def opened(report, open_page):
    """Return the page with the player alive, and its troubles."""
    page, trouble = open_page(report / "01_versions.html", TAP)
    page.wait_for_selector("figure[data-live=yes]")
    yield page, trouble
    page.close()


def until(page, condition):
    """Wait until `condition` holds; the page's own policy forbids playwright to evaluate it there again and again."""
    for _ in range(200):
        if condition():
            return
        page.wait_for_timeout(50)
    pytest.fail("it never came true")


def visible(page):
    """Return the samples from which and to which the page says that it draws."""
    words = page.inner_text(".knb-range").split("samples ")[1].rstrip(")").split(" to ")
    return [int(word.replace(",", "")) for word in words]


def place(page):
    return int(page.input_value(".knb-seek"))


def chosen(page):
    return page.locator(".knb-chosen .knb-name b").inner_text()


def test_switching_while_it_plays_goes_on_at_the_same_place(opened):
    page, trouble = opened
    page.click(".knb-play")
    until(page, lambda: place(page) > 3000)
    leads = []
    for version, sign in (("1", 1), ("2", -1), ("1", 1), ("4", 1), ("2", -1)):
        page.keyboard.press(version)
        page.wait_for_timeout(80)
        sample, clock, told = page.evaluate(HEARD)
        assert np.sign(sample) == sign, version
        at = (abs(sample) - 0.1) / 0.8 * LENGTH / SR
        leads.append(at - clock)
        assert told == pytest.approx(at, abs=0.05), "the head is where the sound is"
    assert np.ptp(leads) < 0.05, "no switch loses or gains time against the audio clock"
    assert trouble == []


def test_keys_and_clicks_switch_seek_zoom_move_and_play(opened):
    page, _ = opened
    page.focus(".knb-version input:enabled")
    page.keyboard.press("2")
    assert chosen(page) == "falling <b>"
    assert "Version 2 of 4: falling <b>" in page.inner_text(".knb-heard")
    page.keyboard.press("3")
    assert chosen(page) == "falling <b>", "what cannot be played cannot be chosen"
    page.keyboard.press("ArrowDown")
    assert chosen(page) == "alike"
    page.keyboard.press("ArrowRight")
    assert place(page) == LENGTH / 40
    rising = page.locator(".knb-lane canvas").nth(1)
    whole = rising.evaluate(INK)
    page.keyboard.press("+")
    first, last = visible(page)
    assert last - first == LENGTH / 2
    assert rising.evaluate(INK) != whole
    page.keyboard.press("Shift+ArrowRight")
    assert visible(page) == [first + LENGTH / 8, last + LENGTH / 8]
    page.locator(".knb-track").first.hover()
    page.mouse.wheel(0, 100)
    until(page, lambda: page.evaluate("window.scrollY") > 0)
    assert visible(page) == [first + LENGTH / 8, last + LENGTH / 8], "the wheel alone scrolls the page"
    page.keyboard.press("0")
    assert visible(page) == [0, LENGTH]
    page.keyboard.press("End")
    assert place(page) == LENGTH
    page.keyboard.press("Home")
    page.keyboard.press(" ")
    until(page, lambda: place(page) > 1000)
    page.keyboard.press(" ")
    stopped = place(page)
    page.wait_for_timeout(100)
    assert (place(page), page.inner_text(".knb-play")) == (stopped, "Play")
    canvas = page.locator(".knb-lane-spectrogram canvas").nth(1)
    width = canvas.bounding_box()["width"]
    canvas.click(position={"x": width / 4, "y": 20})
    assert place(page) == pytest.approx(LENGTH / 4, abs=2 * LENGTH / width)


def test_it_is_read_aloud_axe_finds_nothing_serious_and_paper_has_no_controls(opened, violations):
    page, trouble = opened
    assert violations(page) == []
    group = page.get_by_role("radiogroup", name="Version that is heard")
    radios = group.get_by_role("radio")
    assert radios.count() == 4
    assert radios.nth(2).is_disabled()
    assert "not finite" in page.locator(".knb-version").nth(2).inner_text()
    assert page.get_by_role("slider", name="Position").get_attribute("aria-valuetext").startswith("0.00 seconds")
    assert page.get_by_role("img", name="Mel spectrogram of rising").count() == 1
    assert page.get_by_role("img", name="alike. Difference to rising: exactly 0").count() == 1
    for _ in range(60):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.className") == "knb-play":
            break
    assert "solid 2px" in page.evaluate("getComputedStyle(document.activeElement).outline"), "the focus can be seen"
    assert trouble == []
    page.emulate_media(media="print")
    assert not page.locator(".knb-bar").is_visible()
    assert all(image.is_visible() for image in page.locator(".knb-spectrogram").all())


def test_where_nothing_can_be_played_all_is_still_drawn(report, open_page):
    page, trouble = open_page(report / "02_silent.html")
    page.wait_for_selector("figure[data-live=yes]")
    assert page.locator(".knb-play").is_disabled()
    assert page.locator(".knb-version input:enabled").count() == 0
    inks = page.locator(".knb-lane canvas").evaluate_all(f"all => all.map({INK})")
    assert len(set(inks)) == len(inks) == 5
    assert trouble == []
    page.close()


def test_without_the_script_players_stand_one_below_the_other(report, open_page, tmp_path):
    text = (report / "01_versions.html").read_text()
    (tmp_path / "static.html").write_text(text.replace("script-src 'sha256-", "script-src 'sha256-A"))
    page, _ = open_page(tmp_path / "static.html")
    assert page.locator("figure[data-live]").count() == 0, "the policy lets no other script run"
    assert page.locator("audio").count() == 2
    assert all(player.is_visible() for player in page.locator("audio").all())
    assert page.locator(".knb-spectrogram").count() == 4
    assert "Difference to rising: exactly 0" in page.inner_text("figure")
    page.close()
