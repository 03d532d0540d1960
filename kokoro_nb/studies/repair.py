"""14 asks which patches a runtime needs: the smallest set that makes an export work, each of which is proven needed.

A trial of a set goes stage by stage. Faithful is judged where the numbers are well conditioned. The phase in the middle
of the decoder is an atan2 of bins that hold little but rounding, so the source is judged before its transform, the
transform in the complex plane, and the rest from the reference's own `har` on; the whole decoder has to be exported, to
run, to be finite and to repeat itself. The reference is the model without any patch, in eager float64, on the same
noise.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from kokoro.model import KModel
from torch import Tensor, nn, no_grad

from kokoro_nb.backends import backend
from kokoro_nb.backends.exported import export_program
from kokoro_nb.backends.ladder import Climb, Outputs, climb
from kokoro_nb.errors import InputError
from kokoro_nb.findings import Verdict
from kokoro_nb.locate.output_error import LOST
from kokoro_nb.locate.search import smallest
from kokoro_nb.models import noise, stages
from kokoro_nb.models.case import Case
from kokoro_nb.models.patches import EXPORT_PATCHES, PATCHES, active, patched, require_known
from kokoro_nb.storage import digest
from kokoro_nb.torch_private import pre_hooks
from kokoro_nb.traces.statistics import allowed_error, compare, largest_error

LARGEST = ("decoder from har", "whole decoder")  # left for the sets that work in all smaller parts
Make = Callable[[KModel], nn.Module]


@dataclass(frozen=True)
class TrialStage:
    """One part of the decoder that every trial exports.

    Attributes
    ----------
    make : callable
        Makes it from the patched model.
    inputs : mapping
        Name -> tensor, from the model without patches.
    expected : mapping
        Outputs of the model without patches, float64.
    floor : float or None
        The same in eager float32, error as a share of the peak; None where the numbers are not compared.
    read : callable
        Brings outputs into the form in which they are compared.
    """

    name: str
    make: Make
    inputs: Mapping[str, Tensor]
    expected: Outputs
    floor: float | None
    read: Callable[[Outputs], Outputs]


def trial_stages(model: KModel, case: Case, frames: int) -> tuple[TrialStage, ...]:
    """Return the stages of an utterance, the smaller parts before the largest."""
    found = []
    drawn = case.noise(frames)
    with no_grad(), noise.replayed(drawn), noise.explicit(drawn):
        for name, (make, given) in _parts(model, case.decoder_inputs(frames)).items():
            read = _complex if name == "transform" else dict
            exact, single = (climb(backend(b), make(model), given, calls=1) for b in ("eager-float64", "eager"))
            if exact.outputs is None or single.outputs is None:
                raise InputError(f"The model without patches does not run in eager: {exact.failure or single.failure}")
            floor = None if name == "whole decoder" else largest_error(read(exact.outputs), read(single.outputs))
            found.append(TrialStage(name, make, given, exact.outputs, floor, read))
    return tuple(found)


def _parts(model: KModel, inputs: Mapping[str, Tensor]) -> dict[str, tuple[Make, dict[str, Tensor]]]:
    """Return how to make each stage of the patched model, and its inputs from the model without patches."""
    generator = model.decoder.generator
    cut = {name: given for name, (_, given) in stages.parts(model.decoder, inputs).items()}
    har = cut["generator"]["har"]
    branch = {"x": generator.noise_convs[0](har), "s": inputs["s"]}
    from_har = {**{name: inputs[name] for name in ("asr", "f0", "n", "s")}, "har": har}
    return {
        "excitation": (lambda m: stages.ExcitationStep(m.decoder.generator), cut["source"]),
        "transform": (lambda m: stages.TransformStep(m.decoder.generator), cut["stft forward"]),
        "inverse": (lambda m: stages.WaveformStep(m.decoder.generator), cut["stft inverse"]),
        "decoder block": (lambda m: m.decoder.encode, cut["encode"]),
        "generator block": (lambda m: m.decoder.generator.noise_res[0], branch),
        "decoder from har": (lambda m: stages.FromHarStage(m.decoder), from_har),
        "whole decoder": (lambda m: stages.DecoderStage(m.decoder), dict(inputs)),
    }


def _complex(outputs: Outputs) -> Outputs:
    """Magnitude and phase to real and imaginary part: a flip of the phase where there is no magnitude is no error."""
    magnitude, phase = (outputs[name].astype(np.float64) for name in ("har_magnitude", "har_phase"))
    return {"real": magnitude * np.cos(phase), "imaginary": magnitude * np.sin(phase)}


WORKS, FAILED, SHAPE = "works", "no output", "another shape"
NONFINITE, UNSTEADY, UNFAITHFUL = "non-finite", "not repeatable", "unfaithful"


@dataclass(frozen=True)
class StageOutcome:
    """What became of one stage.

    Attributes
    ----------
    kind : str
        ``works``, or the first that is wrong: ``no output``, ``another shape``, ``non-finite``, ``not repeatable``,
        ``unfaithful``.
    how : str
        The same with its figure or its error, as the end of a sentence; empty if it works.
    finite : float or None
        Share of finite elements of the output, 0 to 1; None where nothing was run.
    of_peak : float or None
        Largest error against the reference as a share of its peak. Of the whole decoder it is not judged.
    drift : float or None
        Largest difference of a later call on the same inputs.
    """

    stage: str
    kind: str
    how: str = ""
    finite: float | None = None
    of_peak: float | None = None
    drift: float | None = None


@dataclass(frozen=True)
class PatchTrial:
    """One set of patches, and what became of the stages in turn, up to the first that does not work."""

    patches: tuple[str, ...]
    outcomes: tuple[StageOutcome, ...]

    @property
    def works(self) -> bool:
        """Whether every stage that was tried works."""
        return all(outcome.kind == WORKS for outcome in self.outcomes)

    @property
    def kind(self) -> str:
        """``works``, or what is wrong with the first stage that does not."""
        return next((outcome.kind for outcome in self.outcomes if outcome.kind != WORKS), WORKS)

    @property
    def how(self) -> str:
        """How it fails, with the stage before it; empty if it works."""
        return next((f"{one.stage}: {one.how}" for one in self.outcomes if one.kind != WORKS), "")


class PatchBench:
    """The stages of one utterance, on which sets of patches are tried.

    Parameters
    ----------
    limit : float
        Error, as a share of the peak, that each stage may have; more where eager float32 has more, see `allowed_error`.
    folder : path, optional
        For artefacts; ``artefacts`` in the cache by default.

    Raises
    ------
    InputError
        If patches are on, or float32 in eager PyTorch is itself so far from float64 that nothing can be judged.
    """

    def __init__(
        self, model: KModel, case: Case, name: str, frames: int = 8, limit: float = 1e-3, folder: Path | None = None
    ):
        if active():
            raise InputError(f"The patch '{active()[0]}' is on; give the model as it is, patches are switched here.")
        self.model, self.name, self.limit, self.folder = model, name, limit, folder
        self._known: dict[str, StageOutcome] = {}
        self.stages = trial_stages(model, case, frames)
        for stage in self.stages:
            if not allowed_error(0.0, stage.floor) <= LOST:
                raise InputError(
                    f"Of '{stage.name}' eager float32 is {stage.floor:.1e} of the peak from float64: beside so much "
                    "rounding no error of a runtime can be seen; take fewer frames."
                )

    def trial(self, names: Sequence[str], confirm: bool = False) -> PatchTrial:
        """Try the patches `names` on each stage in turn, on the largest ones only where `confirm` says so."""
        ordered = tuple(name for name in PATCHES if name in names)
        outcomes: list[StageOutcome] = []
        with patched(self.model, ordered):
            for stage in self.stages:
                if stage.name in LARGEST and not confirm:
                    continue
                outcomes.append(self._outcome(stage))
                if outcomes[-1].kind != WORKS:
                    break
        return PatchTrial(ordered, tuple(outcomes))

    def _outcome(self, stage: TrialStage) -> StageOutcome:
        """Return the outcome of a stage under the patches that are on; from disk, if it was tried before."""
        module = stage.make(self.model)
        key = digest(stage.name.encode(), *structure(module))
        if key not in self._known:
            source = module if self.name.startswith("eager") else export_program(module, stage.inputs)
            taken = climb(backend(self.name), source, stage.inputs, self.folder)
            self._known[key] = judged(stage, taken, self.limit)
        return self._known[key]


def judged(stage: TrialStage, taken: Climb, limit: float) -> StageOutcome:
    """Say what became of a stage."""
    if taken.failure is not None:
        return StageOutcome(stage.name, FAILED, f"failed {str(taken.failure).partition(' failed ')[2]}")
    if taken.outputs is None:  # built for another machine: that it was built is all that can be checked
        return StageOutcome(stage.name, WORKS)
    shapes = {name: array.shape for name, array in taken.outputs.items()}
    if shapes != {name: array.shape for name, array in stage.expected.items()}:
        return StageOutcome(stage.name, SHAPE, f"gives {shapes}")
    found, expected = stage.read(taken.outputs), stage.read(stage.expected)
    finite = float(np.min([compare(expected[name], found[name]).finite for name in expected]))
    error = largest_error(expected, found)
    figures = (finite, error, taken.drift)
    if finite < 1:
        return StageOutcome(stage.name, NONFINITE, f"only {100 * finite:.3g} % finite", *figures)
    if taken.drift is not None and taken.drift != 0:
        return StageOutcome(stage.name, UNSTEADY, f"a later call differs by {taken.drift:.2g}", *figures)
    allowed = allowed_error(limit, stage.floor)
    if stage.floor is not None and not error <= allowed:
        return StageOutcome(stage.name, UNFAITHFUL, f"error {error:.2g} of the peak, above {allowed:.2g}", *figures)
    return StageOutcome(stage.name, WORKS, "", *figures)


def structure(module: nn.Module) -> Iterator[bytes]:
    """Yield all that decides what a module computes under the patches that are on: classes, tensors, hooks, patches.

    Of the patches only those count that replace a method of a class that the module holds: two sets of patches that do
    the same to it yield the same.
    """
    classes, on = tuple(type(part) for part in module.modules()), {name: PATCHES[name].rewrites for name in active()}
    touching = [name for name, rows in on.items() if any(issubclass(kind, row[0]) for row in rows for kind in classes)]
    yield json.dumps(touching).encode()
    for path, part in module.named_modules():
        hooks = [type(hook).__qualname__ for hook in pre_hooks(part).values()]
        yield f"{path} {type(part).__module__}.{type(part).__qualname__} {hooks} {part.extra_repr()}".encode()
        tensors = (*part.named_parameters(recurse=False), *part.named_buffers(recurse=False))
        for name, tensor in tensors:
            array = tensor.detach().contiguous().numpy()
            yield f"{name} {array.dtype} {array.shape} {tensor.stride()}".encode() + array.tobytes()


Attempt = Callable[[tuple[str, ...], bool], PatchTrial]


@dataclass(frozen=True)
class PatchRepair:
    """What was found for one backend.

    Attributes
    ----------
    absent : str
        Why nothing was tried; empty if it was.
    unexecuted : str
        Why what was built was not run: then the set makes the export succeed, and of the numbers nothing is known.
    start, unpatched : PatchTrial or None
        The full set, and no patch at all, in the smaller parts.
    found : PatchTrial or None
        The minimal set, in every stage; None if no set was found that works.
    left_out : tuple of PatchTrial
        For each patch of the minimal set, in order, the set without it: the proof.
    trials : int
        How many sets were tried.
    """

    backend: str
    absent: str = ""
    unexecuted: str = ""
    start: PatchTrial | None = None
    unpatched: PatchTrial | None = None
    found: PatchTrial | None = None
    left_out: tuple[PatchTrial, ...] = ()
    trials: int = 0

    @property
    def minimal(self) -> tuple[str, ...] | None:
        """The minimal set; None if there is none."""
        return self.found.patches if self.found else None

    @property
    def proven(self) -> bool:
        """Whether the set works in every stage and fails as soon as any one patch is left out."""
        return self.found is not None and self.found.works and not any(trial.works for trial in self.left_out)

    @property
    def verdict(self) -> Verdict:
        """``pass`` if the set is found and proven, ``skip`` if the runtime is absent, else ``fail``."""
        return "skip" if self.absent else "pass" if self.proven else "fail"

    def as_dict(self) -> dict[str, Any]:
        """Return the row of a table."""
        row: dict[str, Any] = {"backend": self.backend, "verdict": self.verdict}
        if self.absent:
            return {**row, "how": self.absent}
        row["patches"] = "none works" if self.minimal is None else ", ".join(self.minimal) or "none is needed"
        return {**row, "all of them": self.start.how or "works" if self.start else "", "sets tried": self.trials}

    def proof(self) -> list[dict[str, Any]]:
        """Return the rows of a table: each patch of the set that is left out, and how the rest fails."""
        return [
            {"backend": self.backend, "left out": patch, "outcome": trial.kind, "how": trial.how}
            for patch, trial in zip(self.minimal or (), self.left_out, strict=True)
        ]

    def as_json(self) -> dict[str, Any]:
        """Return all of it, for a machine to read."""
        return {**asdict(self), "minimal": self.minimal, "proven": self.proven, "verdict": self.verdict}


def repair(
    model: KModel, case: Case, name: str, frames: int = 8, patches: Sequence[str] = EXPORT_PATCHES, limit: float = 1e-3
) -> PatchRepair:
    """Search the smallest set of patches with which the export of the decoder to a backend works.

    A set works if every stage exports, runs, is finite, repeats itself, and agrees with the model without patches where
    the numbers are well conditioned. Sets are tried on the smaller parts first; the set that is found is confirmed on
    the whole, and if it does not hold there, the search is done again on the whole.

    Parameters
    ----------
    patches : sequence of str
        What to start from.

    Raises
    ------
    InputError
        If there is no such backend or patch, or rounding alone hides every error.
    """
    from tqdm import tqdm

    require_known(patches)
    absent = backend(name).available()
    if absent:
        return PatchRepair(name, absent=absent)
    bench = PatchBench(model, case, name, frames, limit)
    with tqdm(desc=f"repair {name}", unit="set", disable=None) as bar:

        def attempt(names: tuple[str, ...], confirm: bool) -> PatchTrial:
            bar.set_postfix_str(f"{len(names)} patches{', whole' if confirm else ''}")
            trial = bench.trial(names, confirm)
            bar.update()
            return trial

        return search(name, attempt, patches, backend(name).executes() or "")


def search(name: str, attempt: Attempt, patches: Sequence[str] = EXPORT_PATCHES, unexecuted: str = "") -> PatchRepair:
    """Do the search of `repair` with any way to try a set.

    Parameters
    ----------
    attempt : callable
        Tries a set, in the order of the catalogue; its second argument says whether on the largest stages too.
    patches : sequence of str
        What to start from.
    unexecuted : str
        Why nothing is run, where nothing is.
    """
    tried: set[tuple[str, ...]] = set()

    @cache
    def tries(names: tuple[str, ...], confirm: bool) -> PatchTrial:
        tried.add(names)
        return attempt(names, confirm)

    def failing(names: tuple[str, ...]) -> PatchTrial:
        # the largest stages only if the smaller parts work: what fails in a part fails
        trial = tries(names, False)
        return tries(names, True) if trial.works else trial

    ordered = tuple(patch for patch in PATCHES if patch in patches)
    starts = [ordered, *(_without(ordered, patch) for patch in ordered)]  # where one of them does harm, all but one
    start, unpatched, found = tries(ordered, False), tries((), False), None
    for works in (lambda names: tries(names, False).works, lambda names: failing(names).works):
        begin = next((names for names in starts if works(names)), None)
        if begin is None:
            break
        confirmed = tries(smallest(begin, works), True)
        if confirmed.works:
            found = confirmed
            break
    needed = found.patches if found else ()
    left_out = tuple(failing(_without(needed, patch)) for patch in needed)
    return PatchRepair(name, "", unexecuted, start, unpatched, found, left_out, len(tried))


def _without(names: tuple[str, ...], left: str) -> tuple[str, ...]:
    return tuple(name for name in names if name != left)
