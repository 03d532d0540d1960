"""What a runtime lacks, supplied by this package: other forms of operators by their names, said on every result."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from kokoro_nb.backends.base import Backend
from kokoro_nb.backends.exported import Exported
from kokoro_nb.errors import InputError
from kokoro_nb.locate.other_forms import FORMS, in_other_form
from kokoro_nb.locate.refusal import CORE, with_core_operators


def supplied(exported: Exported, runtime: Backend, names: Sequence[str]) -> tuple[Exported, Any]:
    """Return a program in which operators are written in other forms, and the backend that it is for.

    Parameters
    ----------
    exported : Exported
        The program.
    runtime : Backend
        Where it is to run.
    names : sequence of str
        Names of forms, as a remedy has them (``alpha written out``), or ``core operators``, for Core ML.

    Raises
    ------
    InputError
        If there is no form of that name, or it applies to no operator of the program.
    """
    for name in names:
        if name == CORE:
            changed = with_core_operators(runtime)
            if changed is None:
                raise InputError(f"'{CORE}' cannot be supplied to {runtime.name}; leave it out.")
            runtime = changed
            exported = replace(exported, supplied=(*exported.supplied, name))
        else:
            exported = replace(_in_form(exported, name), supplied=(*exported.supplied, name))
    return exported, runtime


def _in_form(exported: Exported, name: str) -> Exported:
    forms = {kind: form for kind, several in FORMS.items() for form in several if form.name == name}
    if not forms:
        known = ", ".join(sorted({form.name for several in FORMS.values() for form in several}))
        raise InputError(f"There is nothing called '{name}' to supply; there is: {CORE}, {known}.")
    changed = exported
    for kind, form in forms.items():
        every = [one.name for one in exported.specification.operators if one.kind == kind]
        changed = in_other_form(changed, every, form) or changed
    if changed is exported:
        raise InputError(f"'{name}' applies to no operator of the program ({', '.join(forms)}); leave it out.")
    return changed
