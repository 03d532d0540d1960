"""Making the project's own small weights."""

from kokoro_nb.quick_imports import import_jsonschema

import_jsonschema()  # before the package `kokoro` does
