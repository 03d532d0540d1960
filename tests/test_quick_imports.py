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
