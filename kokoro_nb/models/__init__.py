"""The speech model: weights, voices, text, patches, and the cuts through it."""

from kokoro_nb.quick_imports import import_jsonschema, postpone_spacy

import_jsonschema()  # before the package `kokoro` does
postpone_spacy()
