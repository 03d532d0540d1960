"""The plainest cures, measured: the reference's form, a file exported anew, noise as an input, all patches needed."""

from kokoro_nb.backends.base import Backend, Failure
from kokoro_nb.backends.exported import Exported, as_exported
from kokoro_nb.backends.signature import Arrays
from kokoro_nb.errors import InputError
from kokoro_nb.locate.investigation import reference_trace
from kokoro_nb.locate.noise_input import noise_as_input
from kokoro_nb.locate.output_error import OutputError, worst_output
from kokoro_nb.locate.remedy import Remedy, RemedyKind
from kokoro_nb.patch_registry import needed_patches, with_patches

RIGHT = 1e-3  # of the peak: healthy float32 exports are nearer by far, and none of the faults that are cured so


def as_the_reference(runtime: Backend, reference: Exported, given: Arrays, before: OutputError) -> Remedy:
    """Return what it does to export what a program was rewritten from, on inputs of its own."""
    statement = "Write it as the reference has it, on inputs of the reference's length."
    return _measured("other form", "the reference's form", statement, runtime, reference, given, before)


def exported_anew(runtime: Backend, candidate: Exported, inputs: Arrays, before: OutputError | None) -> Remedy:
    """Return what it does to export the module by this package in place of the file."""
    statement = "Export the module anew, in float32 and by torch's exporter of today."
    return _measured("setting", "exported anew", statement, runtime, candidate, inputs, before)


def with_noise_as_input(runtime: Backend, candidate: Exported, inputs: Arrays, before: OutputError | None) -> Remedy:
    """Return what it does to make inputs of the random numbers that the program draws, one draw for both runs.

    ``unknown`` where they are drawn by a function that `noise_as_input` does not know: a cure never ends a diagnosis.
    """
    name, statement = "noise as an input", "The noise becomes an input, which the caller draws."
    with with_patches(candidate.patches):
        try:
            module, given = noise_as_input(candidate.module, inputs)
        except InputError as error:
            size = float("nan") if before is None else before.of_peak
            return Remedy("other form", name, statement, size, float("nan"), "unknown", str(error))
        exported = as_exported(module, given, runtime.name)
    return _measured("other form", name, statement, runtime, exported, given, before)


def with_needed_patches(runtime: Backend, candidate: Exported, inputs: Arrays) -> tuple[Remedy, ...]:
    """Return what the patches do that the runtime is known to need, all of a catalogue at once, where there are any."""
    found = []
    with with_patches(candidate.patches):
        for names, applied in needed_patches(candidate.module, runtime.name):
            listed = ", ".join(names)
            statement = f"The patch{'es' if len(names) > 1 else ''} {listed} that {runtime.name} needs."
            with applied(candidate.module, names) as module:
                exported = as_exported(module, inputs, runtime.name)
                found.append(_measured("patch", listed, statement, runtime, exported, inputs, None))
    return tuple(found)


def _measured(
    kind: RemedyKind,
    name: str,
    statement: str,
    runtime: Backend,
    program: Exported | Failure,
    inputs: Arrays,
    before: OutputError | None,
) -> Remedy:
    size = float("nan") if before is None else before.of_peak
    made = program if isinstance(program, Failure) else runtime.export(program, inputs)
    if isinstance(program, Failure) or isinstance(made, Failure):
        return Remedy(kind, name, statement, size, float("nan"), "unknown", f"{made}")
    right = reference_trace(program, inputs).outputs
    after = worst_output(right, runtime.load(made).run(inputs))
    sound = after.finite == 1 and after.of_peak <= RIGHT
    return Remedy(kind, name, statement, size, after.of_peak, "pass" if sound else "fail")
