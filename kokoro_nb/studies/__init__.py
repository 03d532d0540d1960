"""What one notebook alone needs, a module or a folder for each notebook."""

from kokoro_nb.quick_imports import import_jsonschema

import_jsonschema()  # before the package `kokoro` does
