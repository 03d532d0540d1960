"""What bad input is answered with: one sentence, as an InputError."""

import pytest

from kokoro_nb.errors import InputError


def refused(sentence, function, *given, **named):
    """Require that a function refuses what it is given with a sentence that a regular expression is found in."""
    with pytest.raises(InputError, match=sentence):
        function(*given, **named)
