from itertools import islice

from kokoro_nb.training.sentences import (
    FIXED,
    TEMPLATES,
    VOCABULARY,
    WORDS,
    is_held_out,
    punctuated,
    sentences,
    word_lists,
)


def test_the_vocabulary_is_closed_and_every_sentence_is_short():
    words = set()
    for sentence in islice(sentences(3), 3000):
        assert 2 <= len(sentence.split()) <= 8
        words |= set(sentence.split())
    assert words <= set(VOCABULARY)
    assert len(words) > 0.9 * len(VOCABULARY), "nearly every word is used"


def test_the_same_seed_gives_the_same_sentences():
    assert list(islice(sentences(1), 50)) == list(islice(sentences(1), 50))
    assert list(islice(sentences(1), 50)) != list(islice(sentences(2), 50))
    assert list(islice(word_lists(1), 50)) == list(islice(word_lists(1), 50))


def test_held_out_sentences_are_never_trained_on():
    kept = set(islice(sentences(1, held_out=True), 200))
    seen = set(islice(sentences(1), 3000)) | set(islice(sentences(7), 3000))
    assert not kept & seen
    assert all(is_held_out(sentence) for sentence in kept)
    share = sum(is_held_out(sentence) for sentence in set(islice(sentences(1), 0)) | kept | seen) / len(kept | seen)
    assert 0 < share < 0.1


def test_punctuation_does_not_change_who_is_held_out():
    written = {s: punctuated(s, 0) for s in islice(sentences(5), 500)}
    assert all(is_held_out(s) == is_held_out(w) for s, w in written.items())
    assert {w[-1] for w in written.values()} >= {".", "?"}
    assert any(s == w for s, w in written.items())


def test_every_template_word_is_known_and_no_homophones_are_in():
    assert all(word in WORDS or word.isupper() for template in TEMPLATES for word in template.split())
    assert all(word.isupper() for word in FIXED)
    assert not {"to", "too", "two", "sea", "see", "hear", "here", "won", "one", "son", "sun"} & set(VOCABULARY)
