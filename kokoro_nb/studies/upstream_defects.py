"""10: what today's converters, runtimes and debugging tools get wrong by themselves, and which form is right."""

from collections.abc import Sequence

from kokoro_nb.defects import DEFECTS, DefectMeasurement, defect, measure, write_bundle
from kokoro_nb.studies.decoder import decoder_part


def defects_today(names: Sequence[str] = ()) -> tuple[DefectMeasurement, ...]:
    """Measure the defects of these names, all of the catalogue where none is named.

    Raises
    ------
    InputError
        If there is no defect of such a name.
    """
    return tuple(measure(each) for each in [defect(name) for name in names] or DEFECTS)
