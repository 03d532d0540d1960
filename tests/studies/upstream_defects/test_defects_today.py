import pytest

from kokoro_nb.errors import InputError
from kokoro_nb.studies.upstream_defects import defects_today


def test_an_unknown_defect_is_refused():
    with pytest.raises(InputError, match="no defect 'flying'"):
        defects_today(["flying"])
