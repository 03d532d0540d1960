"""Sentences of 2 to 8 words over a closed vocabulary: what the small voice says and the small ear hears.

A sentence is held out by its text alone (one in twenty), so the voice, the ear and every test agree on it.
Homophones (two, to; sea, see) are left out: no ear could tell them apart.
"""

import json
import random
from collections.abc import Iterator
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from kokoro_nb.errors import InputError
from kokoro_nb.storage import digest

HELD_OUT = 20  # one sentence in so many is never trained on

_GROUPS = {
    "det": "the a my your his this that every another",
    "dets": "the my your his these those many some few all seven eleven twenty",
    "adj": (
        "big small old young good bad happy sad warm cold quick slow quiet loud clean dirty dark bright heavy "
        "light soft hard sweet bitter fresh dry wet deep narrow wide strong gentle clever lazy brave honest lovely "
        "strange yellow green purple orange brown black white golden silver wooden empty broken careful famous "
        "modern simple"
    ),
    "noun": (
        "dog cat bird horse fish mouse teacher doctor farmer driver singer writer lady girl boy child woman man "
        "father mother brother sister uncle cousin neighbor friend stranger captain king queen baby student house "
        "garden kitchen window door table chair bed lamp book paper pencil letter picture mirror clock apple "
        "orange banana lemon onion potato bread butter cheese chocolate water coffee juice soup sugar river "
        "mountain valley forest island beach ocean village city street bridge station airport market church school "
        "office hospital museum theater train bus car bicycle ship engine bottle basket box bag hammer shirt "
        "jacket shoe hat pocket button ring crown song story question answer problem voice machine computer "
        "morning evening winter summer thunder shadow measure treasure pleasure treaty feather brush judge shop"
    ),
    "nouns": (
        "dogs cats birds horses teachers doctors farmers drivers singers children women brothers sisters neighbors "
        "friends strangers students houses gardens windows tables chairs books papers pencils letters pictures "
        "mirrors clocks apples oranges bananas lemons potatoes rivers mountains villages cities bridges trains "
        "engines bottles baskets boxes hammers shirts jackets shoes buttons songs stories questions answers "
        "machines"
    ),
    "verb": (
        "find take bring carry push pull open close wash paint draw follow remember forget watch choose borrow "
        "finish change catch throw touch hold help visit fix build move enjoy"
    ),
    "verbs": (
        "finds takes brings carries pushes pulls opens closes washes paints draws follows remembers forgets "
        "watches chooses borrows finishes changes catches throws touches holds helps visits fixes builds moves "
        "enjoys"
    ),
    "past": (
        "found took brought carried pushed pulled opened closed washed painted followed remembered watched chose "
        "borrowed finished changed caught touched helped visited fixed built moved enjoyed"
    ),
    "goes": "sings dances laughs sleeps waits smiles works swims jumps falls shines arrives returns speaks",
    "go": "sing dance laugh sleep wait smile work swim jump fall shine arrive return speak",
    "adverb": "slowly quickly quietly today tomorrow again often always never together outside early",
    "prep": "in on under behind near over beside with from across around through",
    "name": "john mary peter alice david susan thomas emma george helen",
    "pron": "he she",
    "prons": "we they you",
    "modal": "can will must should could",
    "and": "and or but",
}
WORDS: dict[str, tuple[str, ...]] = {name: tuple(words.split()) for name, words in _GROUPS.items()}

# a word in lower case names a group of WORDS; one in capitals stands for itself
TEMPLATES: tuple[str, ...] = (
    "nouns go",
    "name goes",
    "verb dets nouns",
    "adj nouns go",
    "pron goes adverb",
    "name past nouns",
    "det noun goes",
    "dets nouns go adverb",
    "det noun IS adj",
    "name verbs det noun",
    "WHERE IS det noun",
    "prons modal go adverb",
    "det adj noun goes adverb",
    "det noun IS VERY adj",
    "name and name go TOGETHER",
    "verb det adj noun adverb",
    "prons verb det adj noun",
    "modal prons verb det noun",
    "WHY DID name go adverb",
    "det noun verbs det adj noun",
    "det noun WAS prep det noun",
    "pron past dets adj nouns adverb",
    "WHO past det adj noun adverb",
    "WHEN modal det noun verb dets nouns",
    "det noun prep det noun IS adj",
    "det adj noun goes prep det noun",
    "name past det noun prep det noun",
    "dets adj nouns verb det adj noun",
    "det noun IS adj and det noun goes",
    "det adj noun past det adj noun adverb",
    "prons modal verb det noun prep det noun",
    "det adj noun verbs dets nouns prep NIGHT",
)
FIXED = tuple(word for template in TEMPLATES for word in template.split() if word not in WORDS)

VOCABULARY: tuple[str, ...] = tuple(
    sorted({word for group in WORDS.values() for word in group} | {word.lower() for word in FIXED} | {"an"})
)


def is_held_out(sentence: str) -> bool:
    """Return whether `sentence` is kept from all training; decided by its words alone.

    >>> is_held_out("birds sing") == is_held_out("Birds sing.")
    True
    """
    bare = "".join(c for c in sentence.lower() if c.isalpha() or c == " ")
    return int(digest(bare)[:8], 16) % HELD_OUT == 0


def sentences(seed: int, held_out: bool = False) -> Iterator[str]:
    """Yield sentences without end, in lower case and without punctuation, the same for the same seed.

    Parameters
    ----------
    seed : int
        Seed of the choice of templates and words.
    held_out : bool
        Yield only sentences that training never sees, or only those that it may see.
    """
    source = random.Random(f"sentences {seed}")
    while True:
        words = [
            source.choice(WORDS[word]) if word in WORDS else word.lower() for word in source.choice(TEMPLATES).split()
        ]
        for at, word in enumerate(words[:-1]):  # "a apple" -> "an apple"
            if word == "a" and words[at + 1][0] in "aeiou":
                words[at] = "an"
        sentence = " ".join(words)
        if is_held_out(sentence) == held_out:
            yield sentence


def word_lists(seed: int) -> Iterator[str]:
    """Yield strings of 3 to 6 random English words without end: they mean nothing and cover the sounds.

    The words are those of misaki's pronouncing dictionary, 3 to 9 letters long.
    """
    source = random.Random(f"word lists {seed}")
    words = _dictionary()
    while True:
        yield " ".join(source.choice(words) for _ in range(source.randint(3, 6)))


def punctuated(sentence: str, seed: int) -> str:
    """Return `sentence` as it might be written: as it is, or with a capital and a full stop or question mark."""
    source = random.Random(f"punctuation {seed} {sentence}")
    asked = sentence.split()[0] in ("where", "why", "who", "when", *WORDS["modal"])
    if source.random() < 0.4:
        return sentence
    mark = "?" if asked else "!" if source.random() < 0.05 else "."
    words = sentence.split()
    if len(words) > 5 and source.random() < 0.15:
        words[len(words) // 2] += ","
    return " ".join(words).capitalize() + mark


@cache
def _dictionary() -> tuple[str, ...]:
    spec = find_spec("misaki")
    if spec is None or spec.origin is None:
        raise InputError("The word lists come from the package misaki; install misaki 0.9.4.")
    words = json.loads((Path(spec.origin).parent / "data" / "us_gold.json").read_text(encoding="utf-8"))
    return tuple(
        sorted(word for word in words if word.isascii() and word.isalpha() and word.islower() and 3 <= len(word) <= 9)
    )
