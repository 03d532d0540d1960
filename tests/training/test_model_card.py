"""A card written over another: what other programs measured is not lost, and is not taken for new."""

from pathlib import Path

import pytest

from kokoro_nb.training.model_card import CARD, EARLIER, losses_table, with_earlier_sections

DATA = Path(__file__).parents[2] / "data"
NEW = f"# a voice\n\nText.\n\n{losses_table([{'mel': 1.25}], {'mel': 2})}"


def test_a_section_that_the_new_card_lacks_stays_and_says_that_it_is_old(tmp_path):
    (tmp_path / CARD).write_text("# a voice\n\nOld.\n\n## Ears\n\n20 of 20\n\n### Rhymes\n\n37\n\n" + NEW[17:])
    card = with_earlier_sections(NEW, tmp_path)
    assert card.startswith(NEW.rstrip())
    assert card.endswith(f"\n\n## Ears\n\n{EARLIER}\n\n20 of 20\n\n### Rhymes\n\n37\n")
    assert card.count("## Training losses") == 1
    assert "Old." not in card
    (tmp_path / CARD).write_text(card)
    assert with_earlier_sections(NEW, tmp_path) == card, "a third card says it once"


def test_without_an_earlier_card_it_is_as_it_is(tmp_path):
    assert with_earlier_sections(NEW, tmp_path) == with_earlier_sections(NEW, tmp_path / "absent") == NEW


@pytest.mark.parametrize("name", ["kokoro_mini", "whisper_mini"])
def test_no_section_of_a_bundled_card_is_lost(name):
    bundled = (DATA / name / CARD).read_text(encoding="utf-8")
    headings = {line for line in bundled.splitlines() if line.startswith("## ")}
    assert len(headings) >= 2
    assert headings <= set(with_earlier_sections(NEW, DATA / name).splitlines())
