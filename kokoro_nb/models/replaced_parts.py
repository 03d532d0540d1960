"""Patches of one model, not of a class: each changes parts or tensors of it in place and returns what undoes that."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from threading import Lock

from kokoro.custom_stft import CustomSTFT
from kokoro.istftnet import TorchSTFT
from torch import nn
from torch.nn.utils import remove_weight_norm
from torch.nn.utils.weight_norm import WeightNorm

Undo = Callable[[], None]

_lock = Lock()
_held: dict[nn.Module, tuple[type[nn.Module], int]] = {}  # module -> its own class, and how many contexts changed it


def change_classes(classes: Mapping[nn.Module, type[nn.Module]]) -> Undo:
    """Make each module one of the class given for it; it stays the same object, so that hooks on it stay too."""
    own = {module: type(module) for module in classes}
    for module, other in classes.items():
        module.__class__ = other

    def undo() -> None:
        for module, before in own.items():
            module.__class__ = before

    return undo


@contextmanager
def other_classes(classes: Mapping[nn.Module, type[nn.Module]]) -> Iterator[None]:
    """Make each module one of the class given for it inside; a copy that is made there stays one.

    Contexts that are nested, or of several threads, must give a module the same class, which it keeps until the last
    of them ends.
    """
    with _lock:
        for module, other in classes.items():
            own, contexts = _held.get(module, (type(module), 0))
            _held[module] = own, contexts + 1
            module.__class__ = other
    try:
        yield
    finally:
        with _lock:
            for module in classes:
                own, contexts = _held.pop(module)
                if contexts > 1:
                    _held[module] = own, contexts - 1
                else:
                    module.__class__ = own


def modules_within(module: nn.Module) -> list[nn.Module]:
    """Return `module` and all modules in it: themselves, where `torch.export` hands out stand-ins while it traces.

    A stand-in has the attributes of what it stands for, and another class, which does not last.
    """
    found, waiting = {module: None}, [module]
    while waiting:
        inside = [part for part in vars(waiting.pop())["_modules"].values() if part is not None and part not in found]
        found |= dict.fromkeys(inside)
        waiting += inside
    return list(found)


def plain_convolution(module: nn.Module) -> bool:
    """Say whether `module` is an `nn.Conv1d` padded with so many zeros whose weight no hook computes."""
    return (
        type(module) is nn.Conv1d
        and module.padding_mode == "zeros"
        and not isinstance(module.padding, str)
        and "weight" in module._parameters
    )


def swap_stft(model: nn.Module) -> Undo:
    """Put a `CustomSTFT` of the same sizes in place of each `TorchSTFT`."""
    swapped = []
    for owner in model.modules():
        stft = getattr(owner, "stft", None)
        if isinstance(stft, TorchSTFT):
            dtype = next((weight.dtype for weight in owner.parameters()), stft.window.dtype)
            owner.stft = CustomSTFT(stft.filter_length, stft.hop_length, stft.win_length).to(dtype).eval()
            swapped.append((owner, stft))

    def undo() -> None:
        for owner, stft in swapped:
            owner.stft = stft

    return undo


def fold_weight_norm(model: nn.Module) -> Undo:
    """Compute each weight that ``weight_norm`` computes at every call, once."""
    folded = []
    for module in model.modules():
        for key, hook in list(module._forward_pre_hooks.items()):
            if isinstance(hook, WeightNorm):
                before = dict(module._parameters)
                stale = module.__dict__.get(hook.name)  # the weight of the last call
                remove_weight_norm(module, hook.name)
                getattr(module, hook.name).requires_grad_(False)
                folded.append((module, key, hook, before, stale))

    def undo() -> None:
        for module, key, hook, before, stale in reversed(folded):
            module._parameters.clear()
            module._parameters.update(before)
            module._forward_pre_hooks[key] = hook  # hooks that others hung up or took down meanwhile stay as they are
            module._forward_pre_hooks.move_to_end(key, last=False)
            if stale is not None:
                module.__dict__[hook.name] = stale

    return undo


def make_contiguous(model: nn.Module) -> Undo:
    """Copy the weights of each `CustomSTFT`'s inverse, which are transposed views, in order."""
    changed = []
    for module in model.modules():
        if isinstance(module, CustomSTFT):
            for name in ("weight_backward_real", "weight_backward_imag"):
                tensor = getattr(module, name)
                setattr(module, name, tensor.contiguous())
                changed.append((module, name, tensor))

    def undo() -> None:
        for module, name, tensor in changed:
            setattr(module, name, tensor)

    return undo
