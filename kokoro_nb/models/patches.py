"""Named, reversible patches that make Kokoro exportable, each with its reason and what it may change.

A patch is switched on by `patched(model, names)` and off by leaving it, after which the model computes, bit for bit,
what it computed before. Some replace a method of a class (see `rewrites`), some a part or a tensor of one model.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

from kokoro.custom_stft import CustomSTFT
from kokoro.istftnet import AdainResBlk1d, AdaINResBlock1, SineGen, SourceModuleHnNSF, TorchSTFT
from torch import nn
from torch.nn.utils.weight_norm import WeightNorm

from kokoro_nb.errors import InputError
from kokoro_nb.models import rewrites
from kokoro_nb.patch_registry import register
from kokoro_nb.torch_private import pre_hooks

Rewrite = tuple[type, str, Callable[..., Any]]

_SINE_PHASE: Rewrite = (SineGen, "_f02sine", rewrites.sine_phase)
_SOURCE: tuple[Rewrite, ...] = (
    _SINE_PHASE,
    (SineGen, "forward", rewrites.sine_source),
    (SourceModuleHnNSF, "forward", rewrites.source),
)
_TRANSFORM: Rewrite = (CustomSTFT, "transform", rewrites.stft_transform)


@dataclass(frozen=True)
class Patch:
    """One named change to the model.

    Attributes
    ----------
    reason : str
        Why an export wants it.
    needed_by : tuple of str
        Backends whose export fails, goes wrong or runs many times slower without it; those that the workbook does not
        export to yet are named from what is known of them.
    tolerance : float
        Largest change of the audio that it may cause on the same noise, as a share of the peak; 0 means bit-exact, inf
        that it changes the model on purpose, by as much as ``01_patching`` measures.
    requires : tuple of str
        Patches without which it changes nothing.
    rewrites : tuple
        Class-level: (class, method name, function).
    install : callable or None
        Model-level: from a model to a context in which it is changed.
    acts_on : tuple of type
        Model-level: classes of the modules, or of the hooks on them, that it changes; not of their subclasses.
    cures : tuple of str
        Operators that it writes in another form: ``instance_norm``.
    """

    reason: str
    needed_by: tuple[str, ...] = ()
    tolerance: float = 0.0
    requires: tuple[str, ...] = ()
    rewrites: tuple[Rewrite, ...] = ()
    install: Callable[[nn.Module], AbstractContextManager[None]] | None = None
    acts_on: tuple[type, ...] = ()
    cures: tuple[str, ...] = ()

    def finds(self, model: nn.Module) -> bool:
        """Say whether `model` holds anything that the patch changes, or that a patch which it requires makes such."""
        held = {type(thing) for module in model.modules() for thing in (module, *pre_hooks(module).values())}
        owners = tuple(owner for owner, _, _ in self.rewrites)
        changed = any(kind in self.acts_on or issubclass(kind, owners) for kind in held)  # a subclass inherits a method
        return changed or any(PATCHES[name].finds(model) for name in self.requires)


PATCHES: dict[str, Patch] = {
    "explicit_noise": Patch(
        "Noise drawn inside cannot be the same on two runtimes, and ExecuTorch has no randn_like: it becomes an input.",
        ("executorch-xnnpack", "executorch-portable", "onnxruntime", "tvm", "coreml"),
        rewrites=_SOURCE,
    ),
    "signal_noise": Patch(
        "An older port's way to remove the random operators: sin(137 x) cos(211 x) of the harmonic signal x as noise.",
        tolerance=float("inf"),
        rewrites=_SOURCE,
    ),
    "custom_stft": Patch(
        "Complex STFT operators exist on few runtimes; CustomSTFT computes it with convolutions (and an approximate "
        "inverse).",
        ("executorch-xnnpack", "executorch-portable", "onnxruntime", "tvm", "coreml"),
        float("inf"),
        install=rewrites.swap_stft,
        acts_on=(TorchSTFT,),
    ),
    "exact_istft": Patch(
        "CustomSTFT's inverse counts the one-sided bins once and skips the window normalisation, and its transform "
        "pads by repeating where torch.stft reflects: this mends all three.",
        ("executorch-xnnpack", "executorch-portable", "onnxruntime", "tvm", "coreml"),
        float("inf"),
        requires=("custom_stft",),
        rewrites=(_TRANSFORM, (CustomSTFT, "inverse", rewrites.stft_inverse)),
    ),
    "where_phase": Patch(
        "Boolean assignment into the phase needs index_put with a mask, which TVM refuses; torch.where does the same.",
        ("tvm",),
        requires=("custom_stft",),
        rewrites=(_TRANSFORM,),
        cures=("atan2",),
    ),
    "constant_scale": Patch(
        "rsqrt of an integer tensor stops Core ML; 1/sqrt(2) is a constant.",
        ("coreml",),
        1e-5,
        rewrites=((AdainResBlk1d, "forward", rewrites.residual_block),),
        cures=("rsqrt",),
    ),
    "sqrt_epsilon": Patch(
        "1e-14 under the root of the magnitude is below float16's smallest number, 6e-8, and torch.onnx drops a term "
        "of 1e-8 or less; 1e-7 stays.",
        tolerance=float("inf"),
        requires=("custom_stft",),
        rewrites=(_TRANSFORM,),
    ),
    "floor_phase": Patch(
        "Core ML's compiler turns x % 1 into 0; x - floor(x) is the same number.",
        ("coreml",),
        rewrites=(_SINE_PHASE,),
        cures=("remainder",),
    ),
    "ramped_phase": Patch(
        "Linear interpolation clamps integers to one bound, which TVM refuses, and hides its size from ExecuTorch: "
        "the phase is up-sampled by straight lines from block to block, nearer to float64.",
        ("tvm",),
        float("inf"),
        rewrites=(_SINE_PHASE,),
        cures=("upsample_linear1d",),
    ),
    "divided_snake": Patch(
        "coremltools writes 1 / alpha as 1 / (alpha + 0.0001); the Snake activation divides by alpha instead.",
        ("coreml",),
        1e-5,
        rewrites=((AdaINResBlock1, "forward", rewrites.snake_block),),
        cures=("reciprocal",),
    ),
    "two_pass_norm": Patch(
        "TVM lowers InstanceNorm to a one-pass variance that goes negative, and ExecuTorch's kernel stays outside "
        "XNNPACK: mean and centred variance are written out, those of GroupNorm as well.",
        ("tvm",),
        1e-5,
        install=rewrites.two_pass,
        acts_on=(nn.InstanceNorm1d, nn.GroupNorm),
        cures=("instance_norm", "group_norm"),
    ),
    "fold_weight_norm": Patch(
        "A weight computed at run time is no constant, so XNNPACK takes few convolutions: weight_norm is folded in.",
        ("executorch-xnnpack",),
        1e-5,
        install=rewrites.fold_weight_norm,
        acts_on=(WeightNorm,),
    ),
    "contiguous_istft": Patch(
        "CustomSTFT's inverse weights are transposed views that older ExecuTorch kernels reject: they are copied.",
        requires=("custom_stft",),
        install=rewrites.make_contiguous,
        acts_on=(CustomSTFT,),
    ),
    "plane_blocks": Patch(
        "XNNPACK turns a tensor round before and after each convolution in one dimension: the generator's residual "
        "blocks convolve in two, and are turned round once.",
        tolerance=1e-5,
        install=rewrites.on_planes,
        acts_on=(AdaINResBlock1,),
    ),
}
FAST_PATCHES: tuple[str, ...] = ("plane_blocks",)  # no export needs it
EXPORT_PATCHES: tuple[str, ...] = tuple(name for name in PATCHES if name not in ("signal_noise", *FAST_PATCHES))
_ORIGINALS = {row[:2]: row[0].__dict__[row[1]] for patch in PATCHES.values() for row in patch.rewrites}
_OPEN: list[nn.Module] = []  # the models that are being patched, outermost first


def chosen_patches(patches: str | Sequence[str] | None) -> tuple[str, ...]:
    """Return the names of patches that are meant by ``all``, ``all but A, B``, ``none`` or None, or names.

    Raises
    ------
    InputError
        If one is unknown.

    >>> len(chosen_patches("all")) - len(chosen_patches("all but two_pass_norm")), chosen_patches("none")
    (1, ())
    """
    patches = patches or "none"
    text = patches if isinstance(patches, str) else ", ".join(patches)
    named = [name.strip() for name in text.removeprefix("all but ").split(",") if name.strip()]
    if text in ("all", "none"):
        named = []
    require_known(named)
    if text == "all" or text.startswith("all but "):
        return tuple(name for name in EXPORT_PATCHES if name not in named)
    return tuple(named)


def active() -> tuple[str, ...]:
    """Return the names of the class-level patches that are on, sorted."""
    return tuple(sorted(rewrites.ON))


@contextmanager
def class_patches(names: Sequence[str]) -> Iterator[None]:
    """Have exactly the class-level patches `names` on inside; what was on before is on again afterwards.

    Raises
    ------
    InputError
        If a name is unknown.
    """
    require_known(names)
    before = active()
    _switch(names)
    try:
        yield
    finally:
        _switch(before)


@contextmanager
def patched(model: nn.Module, names: str | Sequence[str] = EXPORT_PATCHES) -> Iterator[nn.Module]:
    """Switch the patches `names` on for `model`, in the order of the catalogue, and off again on leaving.

    Parameters
    ----------
    model : torch.nn.Module
        A Kokoro model or any part of one that holds the modules concerned.
    names : str or sequence of str
        Keys of `PATCHES`, in any order, or as for `chosen_patches`; all that an export takes by default.

    Raises
    ------
    InputError
        If a name is unknown, two patches exclude each other, or none of them finds anything in `model` to change.
    """
    names = chosen_patches(names)
    if {"explicit_noise", "signal_noise"} <= {*names, *active()}:
        raise InputError("The patches 'explicit_noise' and 'signal_noise' exclude each other; choose one.")
    ordered = [name for name in PATCHES if name in names]
    again = any(model is one for one in _OPEN)  # where a patch has been at work already, it finds nothing
    if ordered and not again and not any(PATCHES[name].finds(model) for name in ordered):
        nothing = f"holds nothing that {', '.join(ordered)} would change"
        raise InputError(f"A {type(model).__name__} {nothing}; give a Kokoro model or a part of one.")
    with ExitStack() as stack:
        _OPEN.append(model)
        stack.callback(_OPEN.remove, model)
        for name in ordered:
            install = PATCHES[name].install
            if install is not None:
                stack.enter_context(install(model))
        stack.enter_context(class_patches(sorted({*active(), *(n for n in ordered if PATCHES[n].rewrites)})))
        yield model


def require_known(names: Sequence[str]) -> None:
    """Refuse with an `InputError` what is no patch."""
    unknown = [name for name in names if name not in PATCHES]
    if unknown:
        raise InputError(f"There is no patch '{unknown[0]}'; use one of {', '.join(PATCHES)}.")


def _switch(names: Sequence[str]) -> None:
    """Install the rewrites that `names` need and put every other method back."""
    wanted = {row[:2]: row[2] for name in names for row in PATCHES[name].rewrites}
    for (owner, method), original in _ORIGINALS.items():
        function = wanted.get((owner, method), original)
        setattr(owner, method, function)
    rewrites.ON.clear()
    rewrites.ON.update(names)


def curing(model: nn.Module, operator: str) -> tuple[str, ...]:
    """Return the patches that write `operator` in another form and find something in `model` to change."""
    return tuple(name for name, patch in PATCHES.items() if operator in patch.cures and patch.finds(model))


def needed(model: nn.Module, backend: str) -> tuple[str, ...]:
    """Return the patches that `backend` needs, find something in `model` to change, and are not on."""
    names = {name for name, patch in PATCHES.items() if patch.finds(model) and name not in active()}
    wanted = {name for name in names if any(backend.startswith(one) for one in PATCHES[name].needed_by)}
    wanted |= {one for name in wanted for one in PATCHES[name].requires if one in names}
    return tuple(name for name in PATCHES if name in wanted)


# a runtime that copies a module asks there which patches are on
register(active, class_patches, curing, needed, patched)
