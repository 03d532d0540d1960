"""What is imported without what nobody here uses."""

import subprocess
import sys

import pytest

FIRST = ["kokoro_nb.models.kokoro", "kokoro_nb.studies.decoder", "kokoro_nb.reporting.notebook_process"]


@pytest.mark.parametrize("first", FIRST)
def test_the_grammar_of_addresses_is_not_built(first):
    code = (
        f"import {first}, sys; from kokoro_nb.quick_imports import import_jsonschema; import_jsonschema();"
        "import nbformat, jsonschema; print(*(name in sys.modules for name in ('rfc3987_syntax', 'jsonschema')))"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.split() == ["False", "True"]


def test_it_would_be_built_otherwise():
    code = "import jsonschema, sys; print('rfc3987_syntax' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "True\n"


def test_spacy_is_imported_when_it_is_used():
    code = (
        "import kokoro_nb.models.kokoro, sys, inspect, warnings; from misaki import en;"
        "before = 'spacy.language' in sys.modules; inspect.getmodule(len); warnings.simplefilter('error');"
        "print(before, 'spacy.language' in sys.modules, bool(en.spacy.__file__), callable(en.spacy.load),"
        "'spacy.language' in sys.modules, sys.modules['spacy'] is en.spacy, hasattr(en.spacy, 'nothing'))"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.split() == ["False", "False", "True", "True", "True", "True", "False"]


def test_a_part_of_spacy_can_be_imported_first():
    code = "import kokoro_nb.models, spacy.tokens; from spacy import Language; print(spacy.tokens.Doc, Language)"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "Doc" in ran.stdout
